"""Loop tree to loop IR. The meaning of a loop tree stands at the top of lower.py.

Imports `ir`, and the passes that belong to lowering.
"""
