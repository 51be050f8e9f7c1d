"""The schedule primitives: pure functions from loop tree to loop tree. `table.py` names them all.

Imports loops, extents, hints, handles and regions of `schedules`; rules and sketches import it.
"""
