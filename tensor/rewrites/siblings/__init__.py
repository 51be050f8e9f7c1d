"""Reductions over the same loops that read the same data, as one: who is alike (`alike.py`), what becomes of them (`join.py`).

Imports the core files of `tensor` and `indices`.
"""
