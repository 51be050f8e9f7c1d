"""Rules for windows with fewer products: start at `transform.py`; then which results are taken, and filters of each call.

Imports the files of `cpu` beside it, and what these may import.
"""
