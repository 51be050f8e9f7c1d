"""Models to models that compute the same: constants are folded, common stages shared, dead ones dropped.

Imports `model` and tensor.
"""
