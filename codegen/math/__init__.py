"""Vector math, inline: exp, log, tanh, erf, ... as LLVM IR functions with stated error bounds.

Imports nothing else of `codegen`. `functions.py` names them all.
"""
