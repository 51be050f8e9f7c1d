"""Sums over windows that slide, by Winograd's minimal filtering: of few taps (`winograd.py`), of many taps and few results
(`winograd_taps.py`). Both take a stage apart by `sliding.py` and get their matrices from `toom_cook.py`.

Imports the core files of `tensor`, `indices` and the other rewrites.
"""
