"""Functions from tensors to tensors, of which importers write models: each makes one stage or a few.

Imports tensor alone.
"""
