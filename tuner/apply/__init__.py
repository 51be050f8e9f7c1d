"""compile(program): the best candidate that is known, by tiers. Start at compile.py.

Imports `records`, task spaces and the draft of `search`.
"""
