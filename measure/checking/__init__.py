"""Outputs against the oracle: points, poison, bounds, and all that a timer keeps for one program.

Imports nothing else of `measure`.
"""
