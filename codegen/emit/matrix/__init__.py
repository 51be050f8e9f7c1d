"""Instructions of matrix units, one unit a file.

Imports expressions of `emit` and `ir`.
"""
