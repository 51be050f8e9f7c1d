"""Functions from tensors to tensors, of which importers write models: each makes one stage or a few.

Each file is a family: elementwise, creation, shape, indexing, reductions, linear, convolution, pooling, normalisation, softmax,
activations, resize. Names of the tensors that they make are told apart by themselves (`function.py`). What is refused raises
ArgumentError; what is right and nothing here computes, `NotCovered`.

Imports tensor alone.
"""
