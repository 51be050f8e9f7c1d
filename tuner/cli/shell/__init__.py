"""What a shell sees of the command line: commands that are loaded when they are called, completion, and where words go.

Imports nothing of the commands, and what is heavy only inside of functions: `tune --help` answers at once.
"""
