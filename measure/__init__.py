"""What a candidate really costs: builds, checks and times trials in processes that may die, and tells ceilings.

Imports runtime and what stands below it; never graph or tuner.
"""
