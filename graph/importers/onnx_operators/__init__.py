"""ONNX's operators as functions of tensors: one file for each family, a registry of them all (`registry.py`).

Imports `functions` and tensor.
"""
