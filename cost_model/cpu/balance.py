"""How threads share a nest: how much the busiest one does, and in how many pieces each has what it writes.

Threads take the trips of all parallel loops together in order, as many each. The last trip of an axis may have less to do: of
112 lines in blocks of 96 the first thread of two does six sevenths.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import takewhile
from typing import Any

import numpy as np

from ...schedules.loops import Loop
from ..footprint import Value, real
from ..levels import PARALLEL, StageLevels
from ..traffic import NestTraffic, TrafficWalk

HELD = 0.5  # of a cache, up to which it holds what its core has written when another one reads it
WHOLE = 0.75  # of a tensor, from which on a share of a nest counts as reading it whole


def largest_share(root: StageLevels, chunk: Value) -> Value:
    """The part of a nest's points that the first `chunk` trips of its parallel loops cover: what is left over at the end of an
    axis comes last, so no thread has more."""
    loops = parallel_loops(root)
    # of the loops further in than each, and the points that those cover; the innermost first
    trips: list[Value] = [1.0]
    points: list[Value] = [1.0]
    for loop, reach in reversed(loops):
        trips.append(trips[-1] * real(loop.extent))
        points.append(points[-1] * reach)
    left: Value = chunk
    around: Value = 1.0  # points of one trip of the loops further out
    covered: Value = 0.0
    for (loop, reach), inner, beyond in zip(loops, trips[-2::-1], points[-2::-1], strict=True):
        step = np.minimum(real(loop.stride), reach)
        whole = np.floor(left / inner)
        covered = covered + around * np.minimum(whole * step, reach) * beyond
        left, around = left - whole * inner, around * step
    return covered / points[-1] if loops else 1.0


def pieces_written(root: StageLevels, threads: int) -> Value:
    """Pieces of memory into which the loops that divide a nest among threads cut what it writes. The trips that a thread has of
    such a loop follow each other."""
    total: Value = 0.0
    for level, divides in _dividing(root, threads):
        cuts = np.where(divides, np.minimum(root.trips[level], float(threads)), 0.0)
        for access in root.writes:
            if access.spans and not access.dense:
                total = np.maximum(total, cuts * access.runs(access.extents(root.sizes[level]))[1])
    return total


def read_by_all(root: StageLevels, threads: int, walk: TrafficWalk, traffic: NestTraffic, number: int) -> Value:
    """Bytes that enter a cache (`number`) of what several threads read at the same time: of tensors that each thread's share of
    the nest reads whole."""
    if threads == 1:
        return 0.0
    inside = {tensor: box.moved for tensor, box in traffic.boxes.items()}
    for level, divides in _dividing(root, threads):
        for tensor, box in walk.boxes(root, level).items():
            inside[tensor] = np.where(divides, box.moved, inside[tensor])
    total: Value = 0.0
    for (tensor, leaves), moved in traffic.moved.items():
        if not leaves and (tensor, True) not in traffic.moved:
            total = total + np.where(inside[tensor] > WHOLE * traffic.boxes[tensor].moved, moved[number], 0.0)
    return total


def handed_over(root: StageLevels, threads: int, walk: TrafficWalk, number: int, made: Container[str]) -> Value:
    """Bytes of tensors `made` by nests for each other which a thread reads or writes in what is another thread's part of them,
    if each has as much of the outermost dimension: they come from another core's cache (`number`), or go there when they are
    read. Tensors that those caches do not hold have none: they come from further out anyway."""
    total: Value = 0.0
    room = threads * walk.caches[number].bytes * HELD
    for level, divides in _dividing(root, threads):
        here: Value = 0.0
        for access, sizes, box in walk.touched(root, root.sizes[level], level):
            if access.tensor in made and access.spans:
                whole = access.moved(list(access.shape), walk.caches[0].line)
                part = np.maximum(1.0 - access.shape[0] / (threads * access.extents(sizes)[0]), 0.0) * (whole <= room)
                here = here + part * np.minimum(box.moved * root.trips[level] / threads, whole)
        total = np.where(divides, here, total)
    return total


def _dividing(root: StageLevels, threads: int) -> Iterator[tuple[int, Any]]:
    """The levels inside of parallel loops, and whether the loop that opens each divides the nest among threads: it does as long
    as those around it have fewer trips than there are threads."""
    for level in range(1, parallel_depth(root) + 1 if threads > 1 else 1):
        yield level, root.trips[level - 1] < threads


def parallel_depth(root: StageLevels) -> int:
    """Counts the parallel loops of a nest, which are its outermost ones."""
    return sum(1 for _ in takewhile(lambda loop: loop.kind in PARALLEL, root.loops.loops))


def parallel_loops(root: StageLevels) -> list[tuple[Loop, Value]]:
    """The parallel loops of a nest, outermost first, each with the points of its axis that all of its trips cover."""
    reach: dict[str, Value] = {axis.name: float(axis.extent) for axis in root.definition.all_axes}
    found: list[tuple[Loop, Value]] = []
    for loop in root.loops.loops[: parallel_depth(root)]:
        found.append((loop, reach[loop.axis]))
        reach[loop.axis] = np.minimum(reach[loop.axis], real(loop.stride))
    return found
