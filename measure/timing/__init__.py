"""How long a kernel takes: the method, drift taken out, confirmations, and the child process that times.

Imports `process` and `checking`.
"""
