"""Rules for GPUs. Start at `table.py`, the list of all of them.

Imports the core files of `schedules`, and what the rules of `cpu` know of programs.
"""
