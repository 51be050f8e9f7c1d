"""Search strategies behind one ask/tell protocol; strategy.py says what that is.

Imports spaces of schedules, learned models, results of measure and effort.py; never a loop.
"""
