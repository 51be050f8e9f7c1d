"""What is remembered: records as data, the SQLite database, logs as JSON lines, claims of others.

Imports nothing else of `tuner`.
"""
