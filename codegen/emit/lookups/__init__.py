"""Reads at places that data say: indices in narrow lanes, short stretches of memory, tables of sixteen.

Imports expressions of `emit` and `ir`.
"""
