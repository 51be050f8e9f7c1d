"""How many bytes cross each cache level: reuse distances on a loop nest, without running it.

A loop gives reuse of a tensor if what one trip touches (its working set) survives in the cache until the next trip. From the
innermost loop out, for each tensor and each cache:

    traffic(level d)  =  kept * trips(d) * footprint(d)  +  (1 - kept) * traffic(level d + 1)

where kept goes from 1 to 0 as the working set of one trip grows beyond the cache: where it survives, a tensor is fetched once
for the whole loop, else in each trip anew. All are totals of a run, over all threads. The model is the layer condition of the
ECM model (Stengel et al., "Quantifying performance bottlenecks of stencil computations", ICS 2015) with a soft edge.

Rows that lie a page apart begin at the same place of a first-level cache, which has room for few lines there. Their visits
are counted the same way, in pages: a page that is visited again after more pages than the cache has is a collision; and one
that is visited again after more pages than the core remembers the addresses of has to be looked up in memory (`walks`). A page
that is visited again after more pages than a core follows at a time, of all tensors together, has no lines on their way
(`late`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..common.cached import cached_property
from ..schedules.hints import Streaming
from ..schedules.loops import LoopKind
from ..schedules.recording import elementwise, row_of
from ..targets.target import Cache
from .footprint import PAGE, Access, AxisSizes, Value, real
from .levels import PARALLEL, Levels, StageLevels

FULL, EMPTY = 0.5, 1.6  # working sets, relative to a cache, up to which all and beyond which nothing survives
# The same for one tensor whose rows compete for few places, which it has to itself; for collisions the edge is softer, as
# replacement is not exactly oldest-first.
SELF_FULL, COLLIDE_EMPTY = 0.9, 3.0
# Pages in which a core sees where accesses are going, and fetches what comes next. Two filters of nine points by tiles of 16
# columns, rows of input and output together (EPYC 7003): 3.6 ms with 24 rows, 4.7 with 40, 8.7 with 56, 8.3 with 72.
FOLLOWED = 40.0
STARTING = 2.0  # lines of a page until it does
FINISHED = (
    12.0  # lines that are stored past the caches, part by part, at a time: one more drives out what is there of another
)
TRANSLATIONS = 2560.0  # pages whose addresses a core remembers (Sapphire Rapids: 2048; EPYC 9004: 3072)

Flow = tuple[str, bool]  # a tensor, and whether its bytes leave the cache (True) or enter it


@dataclass(frozen=True, slots=True)
class Box:
    """Holds what is touched of one tensor at some level: bytes of lines; how many times more cache they need because of their
    strides; for tensors whose rows lie pages apart, the pages they lie in, and how many times as many translations these
    take."""

    moved: Value
    crowding: Value | None = None
    pages: Value | None = None
    apart: float = 1.0


@dataclass(frozen=True, slots=True)
class NestTraffic:
    """Counts, for one nest, the bytes of each flow for each cache; `boxes`: what the whole nest touches of each tensor.

    `streamed`: tensor -> 1 where its stores bypass the caches, else 0.
    `late`: lines that are asked for when they are needed, and no earlier, where nothing of them is in the second cache.
    `walks`: visits of pages whose addresses are not remembered.
    `fill`: for each cache the largest working set of a loop that still fits, relative to the cache.
    `left`: tensor -> visits of rows that lie pages apart, after more of its rows than the lines that wait to be finished.
    `collisions`: visits of pages whose lines have been driven out by lines of other pages.
    """

    moved: dict[Flow, list[Value]]
    boxes: dict[str, Box]
    streamed: dict[str, Value]
    collisions: Value
    fill: list[Value]
    late: Value = 0.0
    walks: Value = 0.0
    left: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False)
class TrafficWalk:
    """The walk over the nests of a tree. `threads`: how many work on the nest at hand."""

    levels: Levels
    caches: tuple[Cache, ...]
    vector: int = 1  # bytes of a register: what is stored past the caches begins at a multiple of them
    threads: Value = 1.0
    _boxes: dict[tuple[int, ...], tuple[Box, list[object]]] = field(default_factory=dict)
    _below: dict[tuple[object, ...], tuple[Value, list[object]]] = field(default_factory=dict)
    _fill: Value = 0.0
    _visits: dict[str, Value] = field(default_factory=dict)
    _unseen: dict[str, Value] = field(default_factory=dict)
    _forgotten: dict[str, Value] = field(default_factory=dict)
    _left: dict[str, Value] = field(default_factory=dict)
    _abreast: dict[str, Value] = field(default_factory=dict)
    _streamed: dict[str, Value] = field(default_factory=dict)
    _rooms: Value = 0.0

    def nest(self, root: StageLevels, inside: list[StageLevels], threads: Value) -> NestTraffic:
        """The traffic of one nest; `inside`: all its stages."""
        self.threads = threads
        self._rooms = _column([cache.bytes for cache in self.caches]) / np.minimum(threads, self._shared_by)
        self._fill = np.zeros_like(self._shared_by)
        self._visits, self._unseen, self._forgotten, self._left, self._abreast = {}, {}, {}, {}, {}
        streamed: dict[str, Value] = {}
        self._streamed = streamed
        for s in inside:
            if s.loops.hints.of(Streaming) and self._is_aligned(s):
                streamed |= {a.tensor: real(s.loops.hints.streams) for a in s.writes}
        moved = {flow: self._rows(totals) for flow, totals in self._stage(root).items()}
        late, walks = self._waiting(moved, streamed)
        fill, collisions = self._rows(self._fill), sum(self._visits.values(), 0.0)
        return NestTraffic(moved, self.boxes(root, 0), streamed, collisions, fill, late, walks, self._left)

    @cached_property
    def _shared_by(self) -> NDArray[np.float64]:
        """Says how many threads share one of the caches of each level, a row for each."""
        return _column([cache.shared_by for cache in self.caches])

    def _rows(self, values: Value) -> list[Value]:
        return [row_of(values, number) for number in range(len(self.caches))]

    def _is_aligned(self, stage: StageLevels) -> bool:
        """Says whether stores of whole vectors may go past the caches: where rows are no multiples of a vector, lowering begins
        each at one (codegen/lower/aligned.py), but not where its loops run others inside or are a tile alone."""
        definition = stage.definition
        rows = [tensor.shape[-1] * tensor.dtype.bytes for tensor in definition.tensors if len(tensor.shape) > 1]
        if not any(row % self.vector for row in rows):
            return True
        loops, depth = stage.loops.loops, len(stage.loops.loops)
        axis = loops[-1].axis if loops else ""
        while depth and loops[depth - 1].axis == axis and not self.levels.attached(stage, depth):
            depth -= 1
        return not definition.reduction and depth < len(loops) and not stage.plan.loops.full[depth]

    def _waiting(self, moved: dict[Flow, list[Value]], streamed: dict[str, Value]) -> tuple[Value, Value]:
        """(lines at the beginning of visits of pages that are not read through and those of rows side by side in a page, visits
        of pages whose addresses are not remembered). Nobody waits for what is stored past the caches.
        """
        late: Value = 0.0
        walks: Value = 0.0
        number = min(1, len(self.caches) - 1)
        line = self.caches[number].line
        for tensor in {**self._unseen, **self._abreast}:
            lines = moved[tensor, (tensor, True) in moved][number] / line
            waits, first = 1.0 - streamed.get(tensor, 0.0), lines * (line / PAGE)
            begun = STARTING * np.maximum(self._unseen.get(tensor, 0.0) - first, 0.0)
            late = late + waits * np.minimum(begun + lines * self._abreast.get(tensor, 0.0), lines)
            walks = walks + waits * np.maximum(self._forgotten.get(tensor, 0.0) - first, 0.0)
        return late, walks

    # ---- boxes -------------------------------------------------------------------------------------------------------

    def boxes(self, stage: StageLevels, level: int) -> dict[str, Box]:
        """Tensor -> what one run of a level touches, with all stages attached in it or in the loop that opens it."""
        found: dict[str, Box] = {}
        for access, _, box in self.touched(stage, stage.sizes[level], level):
            old = found.get(access.tensor)
            if old is None:
                found[access.tensor] = box
            elif old is not box:
                found[access.tensor] = _union(old, box)
        return found

    def touched(self, stage: StageLevels, sizes: AxisSizes, level: int) -> Iterator[tuple[Access, AxisSizes, Box]]:
        """The accesses of one run of a level that covers so many points of the axes, with all stages attached in it or in the
        loop that opens it: each with the points that it covers, and what it touches."""
        for access in accesses_at(stage, level):
            yield access, sizes, self._box(access, sizes)
        for opened in range(max(level, 1), len(stage.loops.loops) + 1):
            for inner in self.levels.attached(stage, opened):
                yield from self.touched(inner, self._sizes_below(inner, sizes), 0)

    def _sizes_below(self, inner: StageLevels, sizes: AxisSizes) -> AxisSizes:
        """Works as Levels.below, remembered axis by axis so that what did not change keeps its identity."""
        found: dict[str, Value] = {}
        for axis, box in self.levels.boxes[inner.name].items():
            used = [sizes[outer] for outer, _ in box.terms]
            key = (inner.name, axis, *map(id, used))
            if key not in self._below:
                self._below[key] = (self.levels.below(inner.name, axis, sizes), list(used))
            found[axis] = self._below[key][0]
        return found

    def _box(self, access: Access, sizes: AxisSizes) -> Box:
        used = [sizes[axis] for axis in sorted(access.axes)]
        key = (id(access), *map(id, used))
        if key not in self._boxes:
            line = self.caches[0].line
            extents = access.extents(sizes)
            crowding = access.crowding(extents, line) if access.crowds else None
            pages = access.pages(extents) if access.collides or access.is_far_apart else None
            box = Box(access.moved(extents, line), crowding, pages, access.pages_apart if access.collides else 1.0)
            self._boxes[key] = (box, list(used))
        return self._boxes[key][0]

    # ---- traffic -----------------------------------------------------------------------------------------------------

    def _stage(self, stage: StageLevels) -> dict[Flow, Value]:
        """The flows of all runs of a stage, a row for each cache."""
        moved: dict[Flow, Value] = {}
        boxes = self.boxes(stage, stage.body)
        self._begin(stage, stage.body, accesses_at(stage, stage.body), boxes, moved)
        for level in range(stage.body, 0, -1):
            attached = self.levels.attached(stage, level)
            for inner in attached:
                _add(moved, self._stage(inner))
            if attached:
                self._together(stage.trips[level], moved, boxes)
            outside = self.boxes(stage, level - 1)
            self._widen(stage, level, moved, boxes, outside)
            boxes = outside
            late = [a for a in accesses_at(stage, level - 1) if a not in accesses_at(stage, level)]
            self._begin(stage, level - 1, late, boxes, moved)
        return moved

    def _together(self, runs: Value, moved: dict[Flow, Value], boxes: dict[str, Box]) -> None:
        """Counts what several stages touch in one run of a level once, if it survives from the first to the last of them."""
        kept = survives(_working_set(boxes) / self._rooms)
        for flow, totals in moved.items():
            moved[flow] = once_where(kept, runs * boxes[flow[0]].moved, totals)

    def _begin(
        self,
        stage: StageLevels,
        level: int,
        accesses: list[Access],
        boxes: dict[str, Box],
        moved: dict[Flow, Value],
    ) -> None:
        """The flows of accesses at the innermost level where they happen."""
        alike = np.ones_like(self._shared_by)
        for access in accesses:
            box, runs = boxes[access.tensor], stage.trips[level]
            for flow in ((access.tensor, False), (access.tensor, True))[: 2 if access.written else 1]:
                if flow not in moved:
                    moved[flow] = runs * box.moved * alike
            if level == stage.body:
                share = _side_by_side(stage, access)
                self._abreast[access.tensor] = np.maximum(self._abreast.get(access.tensor, 0.0), share)
            if box.pages is not None:
                colliding = (self._visits, self._forgotten) if access.collides else ()
                for visits in (self._unseen, self._left, *colliding):
                    visits[access.tensor] = visits.get(access.tensor, 0.0) + runs * box.pages / PAGE

    def _widen(
        self,
        stage: StageLevels,
        level: int,
        moved: dict[Flow, Value],
        inside: dict[str, Box],
        outside: dict[str, Box],
    ) -> None:
        """Makes of the flows of a level those of the level around the loop that opens it."""
        runs = stage.trips[level - 1]
        share = _working_set(inside) / self._rooms
        kept = survives(share)
        self._fill = np.maximum(self._fill, np.where(share <= 1.0, share, 0.0))
        apart = self._copies(runs) if stage.loops.loops[level - 1].kind in PARALLEL else 1.0
        for flow, totals in moved.items():
            box, own = inside[flow[0]], kept
            if box.crowding is not None:
                own = np.minimum(kept, survives(box.crowding * box.moved / self._rooms, SELF_FULL))
            moved[flow] = once_where(own, runs * outside[flow[0]].moved * apart, totals)
        self._revisit(runs, [tensor for tensor, leaves in moved if not leaves], inside, outside)

    def _revisit(self, runs: Value, tensors: list[str], inside: dict[str, Box], outside: dict[str, Box]) -> None:
        """The same for visits of pages."""
        followed: Value = 0.0  # pages of what is stored past the caches need nobody who looks ahead
        for tensor, box in inside.items():
            if box.pages is not None:
                followed = followed + (1.0 - self._streamed.get(tensor, 0.0)) * box.pages / PAGE
        known = survives(followed / FOLLOWED, 1.0, 4.0 / 3.0)
        for tensor in tensors:
            within, around = inside[tensor].pages, outside[tensor].pages
            if within is None or around is None:
                continue
            unfinished = survives(within / (FINISHED * PAGE), 1.0, 4.0 / 3.0)
            parts = [(self._unseen, known), (self._left, unfinished)]
            if tensor in self._visits:
                there = survives(within * inside[tensor].apart / (TRANSLATIONS * PAGE), 1.0, 4.0 / 3.0)
                kept = survives(within / self.caches[0].bytes, SELF_FULL, COLLIDE_EMPTY)
                parts += [(self._visits, kept), (self._forgotten, there)]
            for found, part in parts:
                found[tensor] = once_where(part, runs * around / PAGE, found[tensor])

    def _copies(self, runs: Value) -> Value:
        """Says how many caches of each level share one run of a parallel loop: what all threads read enters each of them."""
        return np.maximum(self.threads / (self._shared_by * np.maximum(runs, 1.0)), 1.0)


def _column(values: list[int]) -> NDArray[np.float64]:
    """A row for each cache: what is calculated with it is calculated for all of them at once."""
    return np.array(values, dtype=np.float64)[:, None]


def _working_set(boxes: dict[str, Box]) -> Value:
    return sum((box.moved for box in boxes.values()), 0.0)


def _side_by_side(stage: StageLevels, access: Access) -> Value:
    """The share of the rows that the straight code goes along side by side which have a neighbour in their page: a core follows
    one place of it. Sums of four points of rows of 800, 1600, 2560 and 4120 bytes (32 MB in and out of memory, an EPYC of Zen
    3) take 2.9, 3.2, 3.3 and 3.7 ms row by row, and 4.7, 4.4, 4.2 and 3.8 by blocks of four."""
    if not access.strides or access.strides[-1] >= PAGE:
        return 0.0
    row = {axis for axis, _ in access.spans[-2].terms}
    rows: Value = 1.0
    for loop in stage.straight:
        rows = rows * (real(loop.extent) if loop.kind is LoopKind.UNROLL and loop.axis in row else 1.0)
    return np.where(rows > 1.0, 1.0 - access.strides[-1] / PAGE, 0.0)


def accesses_at(stage: StageLevels, level: int) -> list[Access]:
    """The accesses that happen in runs of a level: the values of a reduction are in registers further in."""
    if stage.registers is None or level <= stage.registers:
        return list(stage.accesses)
    return [access for access in stage.accesses if not access.written or access.each_step]


@elementwise
def survives(share: Value, full: float = FULL, empty: float = EMPTY) -> Value:
    """The part of a working set that is still there on the next trip, from its size relative to the cache."""
    return np.minimum(np.maximum((empty - share) / (empty - full), 0.0), 1.0)


@elementwise
def once_where(kept: Value, once: Value, totals: Value) -> Value:
    """Counts what is kept as fetched once, where that is less than `totals`."""
    return totals - kept * (totals - np.minimum(once, totals))


def _union(a: Box, b: Box) -> Box:
    """Two boxes of one tensor, of which one mostly contains the other."""
    crowding = None if a.crowding is None or b.crowding is None else np.minimum(a.crowding, b.crowding)
    pages = None if a.pages is None or b.pages is None else np.maximum(a.pages, b.pages)
    return Box(np.maximum(a.moved, b.moved), crowding, pages, max(a.apart, b.apart))


def _add(totals: dict[Flow, Value], more: dict[Flow, Value]) -> None:
    for flow, values in more.items():
        totals[flow] = totals[flow] + values if flow in totals else values
