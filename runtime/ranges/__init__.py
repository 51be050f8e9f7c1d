"""Kernels as named ranges in profilers of others: NVTX, ITT and PyTorch, one file each.

Imports the devices.
"""
