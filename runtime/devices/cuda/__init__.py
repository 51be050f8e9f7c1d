"""NVIDIA GPUs: the device, the bindings of the driver, pools of memory, clocks.

Imports base.py, driver.py and gpu.py of `devices`.
"""
