"""Sums of products whose operands lie in words as units multiply them in tiles: what they share (`products.py`), of narrow
elements (`dots.py`), of float32 as parts of bfloat16 (`bf16_parts.py`).

Imports the core files of `tensor`, `indices` and the other rewrites.
"""
