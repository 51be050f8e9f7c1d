"""Child processes: their life, their messages, how they end, and the builders among them.

Imports result.py of `measure`.
"""
