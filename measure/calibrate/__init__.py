"""Measures Ceilings: the highest speeds that loops made for nothing else reach on this machine.

Imports `process`.
"""
