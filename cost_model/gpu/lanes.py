"""Which addresses the lanes of a warp touch at once, and what that costs: shared-memory wavefronts, sectors of global memory.

An access of a warp is a set of addresses, one for each lane, each `width` bytes wide. Shared memory has 32 banks of 4 bytes and
serves one row of them in a cycle: wide accesses go in groups of lanes that together ask for 128 bytes, and a group takes as
many cycles as there are different words in its fullest bank. Global memory moves in sectors of 32 bytes, four to a line
(CUDA C++ best practices guide, "Shared memory and memory banks", "Coalesced access to global memory").

All is computed for a whole population at once: the patterns are few, so each is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..footprint import Value

Integers = NDArray[np.int64]
BANK_ROW = 128  # bytes that the banks serve in a cycle; also a line of the caches
SECTOR = 32
_MIX = 0x9E3779B97F4A7C15


def for_each_pattern(
    compute: Callable[[list[Integers]], NDArray[np.float64]], columns: Sequence[Value | int | Integers]
) -> Value:
    """compute(columns) where each different row is computed only once. Columns are numbers or arrays of one length."""
    arrays = [np.atleast_1d(np.asarray(c)).astype(np.int64) for c in columns]
    length = max(len(a) for a in arrays)
    if length == 1:
        return float(compute(arrays)[0])
    key = np.zeros(length, dtype=np.uint64)
    for array in arrays:
        key = (key + array.astype(np.uint64)) * np.uint64(_MIX)
        key ^= key >> np.uint64(29)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    rows = [np.broadcast_to(a, (length,))[first] for a in arrays]
    found: NDArray[np.float64] = compute(rows)[inverse.reshape(-1)]
    return found


def lane_indices(extents: list[Integers], warp: int) -> tuple[list[Integers], NDArray[np.bool_]]:
    """(index of each loop at each lane of a warp, int64[n, warp]; which lanes have a trip). Loops: the fastest first."""
    rest = np.broadcast_to(np.arange(warp, dtype=np.int64), (len(extents[0]) if extents else 1, warp))
    indices = []
    for extent in extents:
        indices.append(rest % extent[:, None])
        rest = rest // extent[:, None]
    return indices, rest == 0


def visible(extents: Sequence[Value | int | Integers], warp: int) -> list[Value | Integers]:
    """The extents as the lanes of the first warp see them: loops beyond count as one trip, so that fewer patterns differ."""
    found: list[Value | Integers] = []
    inside: Integers = np.ones(1, dtype=np.int64)
    for extent in extents:
        trips = np.asarray(extent, dtype=np.int64)
        seen = np.where(inside >= warp, 1, np.minimum(trips, -(-warp // inside)))
        found.append(seen)
        inside = inside * np.maximum(seen, 1)
    return found


def wavefronts(addresses: Integers, active: NDArray[np.bool_], width: Integers) -> NDArray[np.float64]:
    """float64[n]: cycles of shared memory for an access of a warp. addresses: bytes, int64[n, lanes]; width: 4, 8, 16 bytes."""
    warp = addresses.shape[1]
    total = np.zeros(len(addresses))
    for wide in (4, 8, 16):
        rows = np.flatnonzero(np.clip(width, 4, 16) == wide)
        if not len(rows):
            continue
        group = BANK_ROW // wide
        words, on = addresses[rows] // wide, active[rows]
        apart = np.zeros(len(rows))
        for start in range(0, warp, group):
            apart += _fullest(words[:, start : start + group], on[:, start : start + group], group)
        # groups whose words are the same, or in other banks, are partly served together
        total[rows] = apart if group == warp else 0.5 * (apart + _fullest(words, on, group))
    return total


def _fullest(words: Integers, on: NDArray[np.bool_], banks: int) -> NDArray[np.float64]:
    """Different words in the fullest of the banks, where equal words count once."""
    ordered = np.sort(np.where(on, words, -1), axis=1)
    fresh = np.ones(ordered.shape, dtype=np.bool_)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    fresh &= ordered >= 0
    counts = np.zeros((len(words), banks), dtype=np.int32)
    row = np.broadcast_to(np.arange(len(words))[:, None], ordered.shape)
    np.add.at(counts, (row[fresh], (ordered % banks)[fresh]), 1)
    fullest: NDArray[np.float64] = counts.max(axis=1).astype(np.float64)
    return fullest


def pieces_touched(addresses: Integers, active: NDArray[np.bool_], width: Integers, size: int) -> NDArray[np.float64]:
    """float64[n]: how many pieces of `size` bytes an access of a warp touches, when the first address begins one."""
    first = np.where(active, addresses // size, -1)
    last = np.where(active, (addresses + width[:, None] - 1) // size, -1)
    ordered = np.sort(np.concatenate([first, last], axis=1), axis=1)
    fresh = np.ones(ordered.shape, dtype=np.bool_)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    fresh &= ordered >= 0
    count: NDArray[np.float64] = fresh.sum(axis=1).astype(np.float64)
    return count


def swizzled(addresses: Integers, bits: Integers) -> Integers:
    """Byte offsets after the xor of 16-byte chunks with the number of their line of 128 bytes."""
    mask = (np.int64(1) << bits) - 1
    return addresses ^ (((addresses >> 7) & mask[:, None]) << 4)
