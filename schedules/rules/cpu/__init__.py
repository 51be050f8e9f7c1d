"""Rules for processors: tiles, windows, rows, folds, streams, matrix units.

Imports the core files of `schedules`.
"""
