"""LLVM IR to machine code: object files for processors, PTX for NVIDIA GPUs.

Imports `emit`, `passes` and `ir`; only pipeline.py and the emulator import it.
"""
