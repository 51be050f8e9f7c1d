"""Whole models in a search: the tasks of a model, how it stands with them, how it is cut. Start at tasks.py.

Imports the core files of `tuner`, not its other wings.
"""
