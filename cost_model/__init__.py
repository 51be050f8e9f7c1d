"""Which candidates are worth a trial: features, a closed-form estimate, a learned correction.

Imports schedules, tensor, targets and common; never codegen.
"""
