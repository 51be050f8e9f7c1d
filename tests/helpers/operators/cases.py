"""All cases of all operators."""

from helpers.operators import dtypes, elements, moves, products, reductions, windows

CASES = [*products.CASES, *elements.CASES, *reductions.CASES, *moves.CASES, *windows.CASES, *dtypes.CASES]
