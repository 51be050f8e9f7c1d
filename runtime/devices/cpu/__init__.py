"""The processors of this machine: linking, OpenMP teams, the fast call, memory and caches.

Imports base.py of `devices`.
"""
