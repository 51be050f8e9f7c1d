"""`tune bench`: the same computation by other libraries, on the same inputs, in the same rounds.

Each library is one file, which alone imports it. Imports `records`, `apply` and `measure.compare`.
"""
