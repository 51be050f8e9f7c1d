"""What only GPUs have: statements that every thread runs, and narrow indices.

Imports `emit` and `ir`.
"""
