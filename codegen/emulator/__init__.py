"""GPU kernels on the CPU: threads are coroutines, every access is checked. Start at kernels.py.

Imports the processor backend, which makes its objects.
"""
