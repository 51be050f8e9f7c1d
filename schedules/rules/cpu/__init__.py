"""Rules for processors. Start at `table.py`, the list of all of them.

Imports the core files of `schedules`.
"""
