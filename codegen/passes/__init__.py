"""Passes over loop IR, one a file.

Imports `ir`, and what tensor and schedules know of indices and plans.
"""
