"""From a candidate to an artifact: loop IR, passes, LLVM.

Imports schedules, tensor, targets and common; never cost_model.
"""
