"""Pipelines of stencils, as programs of ours and in Halide (pipelines.py)."""
