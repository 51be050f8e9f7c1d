"""Whole models: programs of hundreds of stages, read from PyTorch and ONNX, cut into kernels and joined to one artifact.

Imports tensor, schedules, codegen, cost_model and runtime; never measure or tuner.
"""
