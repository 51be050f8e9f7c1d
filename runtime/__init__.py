"""What runs an artifact.

Imports codegen, cost_model and what stands below these; never measure, graph or tuner.
"""
