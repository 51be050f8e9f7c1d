"""Copies that read across what they write: what code turns of them in registers, and a cost model counts.

What lies side by side is read, and stored far apart, by a copy that packs rows. Code reads so many elements of as many rows at
a time and stores them across the rows (codegen/passes/turn_copies.py).
"""

from __future__ import annotations

SIDE = 4  # of a square: lanes of the narrowest vectors, which are shuffled whole everywhere
WIDTHS = (32, 64)  # bits of elements of which so many make one or two vectors
