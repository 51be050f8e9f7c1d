"""Kernels as C libraries: no Python and no LLVM where they run. `export.py` first; the C of every library is `runtime.c`.

Imports what stands below `runtime`, and kernels; nothing of the search.
"""
