"""What prefetches of later trips ask for: how far ahead, and how many lines."""

from __future__ import annotations

import numpy as np

from ...schedules.hints import PrefetchAhead
from ...schedules.loops import WRITTEN_OUT
from ...tensor.expr import variables
from ..footprint import Value, real
from ..levels import StageLevels


def bytes_ahead(stages: list[StageLevels]) -> Value:
    """Returns the farthest prefetch of some stages, in bytes of the tensor that it asks for."""
    farthest: Value = 0.0
    for s in stages:
        for hint in s.loops.hints.of(PrefetchAhead):
            farthest = np.maximum(farthest, real(hint.distance) * bytes_of_a_trip(s, hint.loop, hint.tensor))
    return farthest


def bytes_of_a_trip(stage: StageLevels, where: str, tensor: str) -> Value:
    """Says how far in a tensor one trip of a loop moves on: what is written out in it, along the tensor's axes."""
    definition = stage.definition
    reads = [read for read in definition.reads() if read.tensor == tensor]
    made = [t for t in definition.tensors if t.name == tensor]
    own = {axis.name for _ in made for axis in definition.axes}
    moving = own.union(*(variables(index) for read in reads for index in read.indices))
    dtype = (reads[0] if reads else made[0]).dtype
    inside = stage.loops.loops[stage.loops.position(where) + 1 :]
    points: Value = float(dtype.bytes)
    for loop in inside:
        if loop.kind in WRITTEN_OUT and loop.axis in moving:
            points = points * real(loop.extent)
    return points


def lines_asked(stages: list[StageLevels], line: int) -> Value:
    """Says how many lines, of so many bytes, these prefetches ask for in a whole run."""
    total: Value = 0.0
    for s in stages:
        for hint in s.loops.hints.of(PrefetchAhead):
            trips = s.trips[s.loops.position(hint.loop) + 1]
            lines = trips * bytes_of_a_trip(s, hint.loop, hint.tensor) / line
            total = total + lines * np.minimum(real(hint.distance), 1.0)
    return total
