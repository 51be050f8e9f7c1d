"""How to compute it, with the numbers left open: loops, steps, tunables, sketches, spaces.

Imports tensor, targets and common.
"""
