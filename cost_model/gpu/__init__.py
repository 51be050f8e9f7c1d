"""GPUs: launches, registers, lanes, places, and the seconds that follow.

Imports footprint, levels, operations and traffic of `cost_model`.
"""
