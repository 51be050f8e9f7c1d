"""What hardware is: lanes, registers, ports, cores, caches; and the speeds it can reach.

Imports common alone.
"""
