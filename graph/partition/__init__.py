"""Which stages of a program share a kernel: one program becomes several.

Imports tensor, schedules and cost_model.
"""
