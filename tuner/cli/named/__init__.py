"""What people name on the command line: operators with sizes, files, models, tasks and records. Start at what.py.

Imports no command.
"""
