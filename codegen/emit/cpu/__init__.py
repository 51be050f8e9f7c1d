"""What only processors have: whole modules with their exported functions, and parallel regions.

Imports `emit` and `ir`.
"""
