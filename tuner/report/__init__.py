"""A page about searches that a person can send: what a database says, as data, and the page around it. Start at report.py.

Imports the core files of `tuner`, its records and its models.
"""
