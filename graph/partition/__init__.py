"""Which stages of a program share a kernel: one program becomes several.

Imports tensor, schedules, cost_model, and how codegen calls rows of memory.
"""
