"""From the formats of others to a `Model`; each optional package is imported in one file, when it is needed.

Imports `functions`, `model` and tensor.
"""
