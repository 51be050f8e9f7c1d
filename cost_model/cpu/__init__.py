"""Processors: instructions, chains, matrix units, and all that features and estimate are made of.

Imports footprint, levels, operations and traffic of `cost_model`.
"""
