"""All cases of all operators."""

from helpers.operators import dtypes, elements, moves, products, reductions, scatters, sorts, windows

CASES = [
    *products.CASES,
    *elements.CASES,
    *reductions.CASES,
    *moves.CASES,
    *scatters.CASES,
    *sorts.CASES,
    *windows.CASES,
    *dtypes.CASES,
]
