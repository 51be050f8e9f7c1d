"""Trials on many machines: a pool of hosts, and Ray, which only ray_pool.py imports. Start at pool.py.

Imports `process`, `calibrate` and local.py.
"""
