"""Sums over windows that slide, by Winograd's minimal filtering: of few taps (`winograd.py`), of many taps and few results
(`winograd_taps.py`); windows with gaps as windows without (`space_to_batch.py`). All take a stage apart by `sliding.py`.

Imports the core files of `tensor`, `indices` and the other rewrites.
"""
