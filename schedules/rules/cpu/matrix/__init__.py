"""Rules for products on a matrix unit. Start at `rule.py`; `rows.py` has products of products.

Imports the files of `cpu` beside it, and what these may import.
"""
