"""Index arithmetic: affine forms, intervals under guards, bounds, ranges of values used as indices.

Imports expressions, programs and element types of `tensor`, nothing else of it.
"""
