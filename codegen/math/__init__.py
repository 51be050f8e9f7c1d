"""Vector math, inline: exp, log, tanh, erf, ... as LLVM IR functions with stated error bounds.

Imports nothing else of `codegen`. `functions.py` collects them. Their names and the bounds that they keep are those of
tensor/mathematics.py.
"""
