"""What outputs hold before a kernel runs: a pattern that no right kernel leaves behind, so that what was never written shows.

Floats are filled with a NaN whose bits nothing computes; integers and bools, which have no spare values, with 0xA5 bytes
(it is wrong by value almost everywhere, and as a bool it is neither 0 nor 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...tensor.dtype import DType
from ...tensor.oracle.roundings import Array

_PATTERNS = {"f64": 0x7FF85EED5EED5EED, "f32": 0x7FC05EED, "f16": 0x7E5E, "bf16": 0x7FDE}
_BYTE = 0xA5
_CHUNK = 1 << 18


def poison(array: Array, dtype: DType) -> None:
    """Fills an output, which is contiguous."""
    pattern = _PATTERNS.get(dtype.name)
    if pattern is None:
        array.reshape(-1).view(np.uint8)[...] = _BYTE  # an array of rank 0 has no view of another width
    else:
        bit_patterns(array)[...] = pattern


def first_unwritten(array: Array, dtype: DType) -> int | None:
    """Flat position of the first element that still holds the pattern; None if there is none, or no way to tell (integers)."""
    pattern = _PATTERNS.get(dtype.name)
    if pattern is None and dtype.name != "bool":
        return None
    bits = bit_patterns(array)
    wanted = _BYTE if pattern is None else pattern
    for start in range(0, bits.size, _CHUNK):
        found = bits[start : start + _CHUNK] == wanted
        if found.any():
            return start + int(found.argmax())
    return None


def bit_patterns(array: Array) -> NDArray[np.unsignedinteger]:
    """The elements' bits as one flat row of unsigned integers."""
    flat: NDArray[np.unsignedinteger] = array.reshape(-1).view(f"u{array.itemsize}")
    return flat
