"""Devices: load an artifact, allocate, launch, time.

Imports artifacts of codegen, and targets; the folder of a driver alone imports its package.
"""
