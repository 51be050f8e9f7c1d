"""A column of a matrix whose rows are vector registers, by a network of shuffles.

All n columns of n vectors of n lanes together take n * log2(n) shuffles: a column alone takes n - 1, and what columns have in
common is written once, because pure instructions are remembered by their text. With segments of 128 bits, in which every vector
instruction set shuffles at full speed:

    inside of segments   interleave pairs of rows until a segment holds one column's share of its rows (x86: unpack, ARM: zip)
    across segments      collect the even or the odd segments of pairs, until the column is whole (x86: vshuff32x4)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ..math.body import shuffle_mask
from .text import FunctionText
from .types import Value

SEGMENT = 128  # bits


def column(text: FunctionText, rows: Sequence[Value], number: int) -> Value:
    """The vector of lane `number` of each row: as many rows as lanes, a power of two, all of one type."""
    lanes = rows[0].lanes
    segment = min(lanes, max(1, SEGMENT // rows[0].dtype.bits))
    inside = [_interleaved(text, rows[k : k + segment], number % segment) for k in range(0, lanes, segment)]
    return _collected(text, inside, number // segment, segment)


def _interleaved(text: FunctionText, rows: Sequence[Value], number: int) -> Value:
    """One vector: in each segment, lane `number` of that segment of each row. As many rows as a segment has lanes."""
    if len(rows) == 1:
        return rows[0]
    half, lanes = len(rows) // 2, rows[0].lanes
    mask = _interleaving(lanes, min(lanes, max(1, SEGMENT // rows[0].dtype.bits)), number >= half)
    pairs = [_shuffle(text, rows[k], rows[k + half], mask) for k in range(half)]
    return _interleaved(text, pairs, number % half)


@cache
def _interleaving(lanes: int, segment: int, high: bool) -> str:
    """The lower or upper halves of the segments of two vectors, lane by lane in turn."""
    start = segment // 2 if high else 0
    return shuffle_mask(
        first + start + lane // 2 + lanes * (lane % 2) for first in range(0, lanes, segment) for lane in range(segment)
    )


def _collected(text: FunctionText, rows: Sequence[Value], number: int, segment: int) -> Value:
    """One vector: segment `number` of each row. As many rows as a row has segments."""
    if len(rows) == 1:
        return rows[0]
    mask = _collecting(rows[0].lanes, segment, number % 2)
    pairs = [_shuffle(text, rows[k], rows[k + 1], mask) for k in range(0, len(rows), 2)]
    return _collected(text, pairs, number // 2, segment)


@cache
def _collecting(lanes: int, segment: int, odd: int) -> str:
    """The even or the odd segments of two vectors."""
    return shuffle_mask(
        vector + block * segment + lane
        for vector in (0, lanes)
        for block in range(odd, lanes // segment, 2)
        for lane in range(segment)
    )


def _shuffle(text: FunctionText, left: Value, right: Value, mask: str) -> Value:
    made = f"shufflevector {left.typed}, {right.typed}, {mask}"
    return Value(text.compute(made, left.text, right.text), left.dtype, left.lanes)
