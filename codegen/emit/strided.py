"""Which whole vectors hold every second (third, fourth) element of memory, and which of their lanes are picked.

The vectors begin where the first element lies and end where the last one does, so that nothing is read that may not exist.
Where the elements beside each one are known to exist, the vectors begin at a multiple of the step instead: reads of x[2 * j]
and of x[2 * j + 1] have the same ones then.
"""

from __future__ import annotations

from dataclasses import dataclass

from .index import Index

Near = tuple[int, int]  # elements before and behind each one that is read which surely exist
ALONE: Near = (0, 0)


@dataclass(frozen=True, slots=True)
class StridedPart:
    """A vector: which element its first one is, counted from the one of lane 0, and lane of the result -> lane of it."""

    start: int
    taken: dict[int, int]


def parts_of(index: Index, lanes: int, near: Near) -> tuple[list[StridedPart], bool]:
    """Returns the vectors in order, and whether neighbours have the same ones."""
    step = index.lane
    ahead = index.constant % step
    shared = near[0] >= ahead and near[1] >= step - 1 - ahead
    starts = [part * lanes - (ahead if shared else 0) for part in range(step)]
    if not shared:
        starts[-1] = (lanes - 1) * (step - 1)
    where = [min((step * lane - starts[0]) // lanes, step - 1) for lane in range(lanes)]
    taken = [
        {lane: step * lane - start for lane in range(lanes) if where[lane] == part} for part, start in enumerate(starts)
    ]
    return [StridedPart(start, lanes_of) for start, lanes_of in zip(starts, taken, strict=True)], shared
