"""What a program computes, in float64, whole or at points, with error bounds; and random inputs. Start at reference.py.

Imports the core files of `tensor` and `indices`, never `ops` or `rewrites`: it must not share their mistakes.
"""
