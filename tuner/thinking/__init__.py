"""Where a search thinks: in its own process, or in a child that is stopped while a clock is read.

Imports `search` and the files that it needs.
"""
