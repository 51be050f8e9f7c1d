"""NVIDIA's GPUs: their levels, how their kernels are written, their devices. Start at `backend.py`.

Imports the core files of `targets` that describe backends.
"""
