"""The kernels of a model are timed inside of it, at the end of a search. Start at race.py.

Imports `apply`, `search` and the core files of `tuner`.
"""
