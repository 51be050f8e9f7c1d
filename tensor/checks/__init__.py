"""What is refused of expressions, apart from the rules of whole programs in `tensor/check.py`.

Imports expressions, programs, printing and `indices` of `tensor`; only check.py imports it.
"""
