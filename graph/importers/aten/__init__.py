"""ATen operators as functions of tensors: one file for each family, none of which imports torch.

Imports `functions` and tensor.
"""
