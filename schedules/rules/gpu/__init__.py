"""Rules for GPUs. `derive.py` calls the others.

Imports the core files of `schedules`, and what the rules of `cpu` know of programs.
"""
