"""A short stretch of memory, loaded as it lies: two vectors from its first element to its last one, of which lanes are picked.

Nothing beyond the stretch is read, however long it is: the vectors overlap where its length is no power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.loop_ir import Buffer
from ..math.body import shuffle_mask
from .text import FunctionText
from .types import memory_type


def picked(
    text: FunctionText,
    buffer: Buffer,
    pointer: Callable[[int], str],
    length: int,
    places: Iterable[int],
    movable: bool,
) -> str:
    """A vector of the elements at these places of a stretch of so many. `pointer`: the address of one of them; `movable`: as of
    `FunctionText.read`."""
    whole = 1 << (length.bit_length() - 1)
    behind = length - whole
    kind = memory_type(buffer.dtype, whole)
    vectors = []
    for place in (0, behind):
        address = pointer(place)
        load = f"load {kind}, ptr {address}, align {buffer.dtype.bytes}"
        vectors.append(text.read(load, buffer.name, address, movable=movable))
    mask = shuffle_mask(place if place < whole else whole + place - behind for place in places)
    return text.compute(f"shufflevector {kind} {vectors[0]}, {kind} {vectors[1]}, {mask}", *vectors)
