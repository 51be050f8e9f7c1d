"""Programs of whole models to programs that compute the same: dead stages are dropped, common ones shared.

Imports tensor and schedules. `table.py` lists them in their order.
"""
