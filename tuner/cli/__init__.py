"""The command line: thin; it asks others and prints. Start at main.py.

Imports all of `tuner`; nothing imports it.
"""
