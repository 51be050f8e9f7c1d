"""What prefetches of later trips ask for: how far ahead, and how many lines; and what that costs where nobody needs it."""

from __future__ import annotations

import numpy as np

from ...schedules.hints import FITTING, PrefetchAhead, PrefetchNext
from ...schedules.loops import WRITTEN_OUT
from ...targets.ceilings import AHEAD, Ceilings
from ...targets.target import Target
from ...tensor.expr import variables
from ..footprint import Value, real
from ..levels import Levels, StageLevels

# How many times as long memory takes to be read from front to back where all of it is asked for ahead, of processors that were
# not measured: each line that is asked for keeps a place of the few misses that a first cache has until it comes, while what a
# core sees coming by itself waits in the second one. 1 row times 1024x2816 out of memory, an EPYC of Zen 3: 498 us without
# hints, 623 with those 2048 bytes ahead, 580 with 8192; in two threads 297, 366 and 340. Out of the last cache 64 and 61. On a
# Sapphire Rapids, whose core sees less far, they help: so only those are meant whose vectors are no wider than these bits.
SLOWER = 1.2
SLOWER_UP_TO = 256


def bytes_ahead(stages: list[StageLevels]) -> Value:
    """Returns the farthest prefetch of some stages, in bytes of the tensor that it asks for."""
    farthest: Value = 0.0
    for s in stages:
        for hint in s.loops.hints.of(PrefetchAhead):
            farthest = np.maximum(farthest, real(hint.distance) * bytes_of_a_trip(s, hint.loop, hint.tensor))
    return farthest


def bytes_of_a_trip(stage: StageLevels, where: str, tensor: str, whole: bool = False) -> Value:
    """Says how far in a tensor one trip of a loop moves on: what is written out in it, along the tensor's axes; of the `whole`
    trip, what loops inside go along, too."""
    definition = stage.definition
    reads = [read for read in definition.reads() if read.tensor == tensor]
    made = [t for t in definition.tensors if t.name == tensor]
    own = {axis.name for _ in made for axis in definition.axes}
    moving = own.union(*(variables(index) for read in reads for index in read.indices))
    dtype = (reads[0] if reads else made[0]).dtype
    inside = stage.loops.loops[stage.loops.position(where) + 1 :]
    points: Value = float(dtype.bytes)
    for loop in inside:
        if (whole or loop.kind in WRITTEN_OUT) and loop.axis in moving:
            points = points * real(loop.extent)
    return points


def lines_asked(stages: list[StageLevels], line: int) -> Value:
    """Says how many lines, of so many bytes, these prefetches ask for in a whole run."""
    total: Value = 0.0
    for s in stages:
        for hint in s.loops.hints.of(PrefetchAhead):
            total = total + _bytes_asked(s, hint) / line
    return total


def packed_bytes_asked(counted: Levels, stages: list[StageLevels]) -> Value:
    """Says how many bytes these prefetches ask for of constants that were packed in the order in which they are read."""
    total: Value = 0.0
    for s in stages:
        for hint in s.loops.hints.of(PrefetchAhead):
            if counted.is_prepared(hint.tensor):
                total = total + _bytes_asked(s, hint)
    return total


def _bytes_asked(stage: StageLevels, hint: PrefetchAhead) -> Value:
    """Says how many bytes one prefetch asks for in a whole run."""
    trips = stage.trips[stage.loops.position(hint.loop) + 1]
    return trips * bytes_of_a_trip(stage, hint.loop, hint.tensor) * np.minimum(real(hint.distance), 1.0)


def brings_near(counted: Levels, stages: list[StageLevels], constants: bool = False) -> Value:
    """Returns above 0 where operands are brought near by some stages, or, of `constants`, such that were packed once. A loop of
    one trip has no next one to bring them for."""
    total: Value = 0.0
    for s in stages:
        for hint in s.loops.hints.of(PrefetchNext):
            if constants and not counted.is_prepared(hint.tensor):
                continue
            trips = real(counted.tree.owner(hint.loop).loop(hint.loop).extent)
            total = total + real(hint.asked) * np.minimum(trips - 1.0, 1.0)
    return total


def tiles_in_reach(stages: list[StageLevels]) -> Value:
    """Returns above 0 where hints bring tiles of the next block near which have a place in the first cache."""
    fits: Value = 0.0
    for s in stages:
        own, read = {loop.name for loop in s.loops.loops}, {read.tensor for read in s.definition.reads()}
        for hint in s.loops.hints.of(PrefetchNext) if s.loops.tensorized is not None else ():
            if hint.tensor not in read:  # tiles are made of it in a near cache
                fits = np.maximum(fits, real(hint.asked))
            elif hint.loop in own:
                fits = np.maximum(fits, np.where(bytes_of_a_block(s, hint) <= FITTING, real(hint.asked), 0.0))
    return fits


def bytes_of_a_block(stage: StageLevels, hint: PrefetchNext) -> Value:
    """Bytes of a tensor that one trip of a loop of a stage reads."""
    reads = sum(read.tensor == hint.tensor for read in stage.definition.reads())
    return reads * bytes_of_a_trip(stage, hint.loop, hint.tensor, whole=True)


def waits_for_constants(counted: Levels, stages: list[StageLevels]) -> bool:
    """Says whether some stages wait for what was packed once and comes from afar, where nothing brings it near and the last
    cache is slow: a matrix unit for its tiles, windows for their weights where there is a place for hints."""
    for s in stages:
        hinted = {hint.tensor for hint in s.loops.hints.of(PrefetchNext)} if len(s.definition.reduction) > 1 else set()
        read = {r.tensor for r in s.definition.reads()} if s.loops.tensorized is not None else set()
        if any(counted.is_prepared(tensor) for tensor in hinted | read):
            return True
    return False


def slower_asked(target: Target, ceilings: Ceilings) -> float:
    """Says how many times as long memory takes to be read from front to back where it is asked for ahead, if that is slower."""
    read, asked = (ceilings.streams.get(name) for name in ("read", "read" + AHEAD))
    if read is None or asked is None:
        return SLOWER if target.vector_bits <= SLOWER_UP_TO else 1.0
    return max(read[-1][1] / asked[-1][1], 1.0)
