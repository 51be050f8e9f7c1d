"""AMD's GPUs: their levels, how their kernels are written. Start at `backend.py`. No device of theirs has run any.

Imports the core files of `targets` that describe backends.
"""
