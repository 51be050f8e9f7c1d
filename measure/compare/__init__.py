"""How kernels and whole libraries are compared: rounds and ratios, noise of the machine, contenders in processes of their own.

Imports nothing of `measure` but what says which machine this is.
"""
