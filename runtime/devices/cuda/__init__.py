"""NVIDIA GPUs: the device, the bindings of the driver, clocks.

Imports base.py, driver.py, gpu.py and memory_pool.py of `devices`.
"""
