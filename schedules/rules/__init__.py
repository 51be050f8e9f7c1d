"""Rules that derive sketches for any program, for processors and for GPUs. Start at rule.py.

Imports the core files of `schedules`; `gpu` may import `cpu`, never the other way round.
"""
