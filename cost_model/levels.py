"""The nests of a loop tree as a cost model walks them: for each stage and each loop level, trips and sizes.

Level d of a stage is what runs inside its first d loops. Counts are exact totals over a whole run (schedules/regions.py);
sizes are means, so that sizes times trips is what is really covered when the last tile is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType

import numpy as np

from ..schedules import regions
from ..schedules.loops import Loop, LoopKind, LoopTree, Scope, StageLoops, is_full, is_reduction
from ..schedules.prepared import prepared_stages
from ..schedules.useful import ending, ends_early, share
from ..tensor.exceptional import asked_for
from ..tensor.expr import Read, variables
from ..tensor.indices.bounds import Bound
from ..tensor.indices.forms import affine
from ..tensor.program import Stage
from .footprint import Access, Sizes, Value, real, span_of

PARALLEL = (LoopKind.PARALLEL, LoopKind.BLOCK, LoopKind.WARP, LoopKind.THREAD)


@dataclass(frozen=True, eq=False)
class StageLevels:
    """A stage with its loops in numbers.

    trips[d]: how many times level d runs in all; sizes[d]: points of each axis that one run of it covers.
    body: the level from which on all loops are unrolled or vectors: straight code.
    registers: the level at which the values of a reduction are moved between registers and storage (None: no reduction, or
    one that works in its storage all the time).
    """

    loops: StageLoops
    definition: Stage
    trips: tuple[Value, ...]
    sizes: tuple[dict[str, Value], ...]
    body: int
    registers: int | None
    reduces: tuple[bool, ...]
    full: tuple[bool, ...]
    accesses: tuple[Access, ...]

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.loops.stage

    @cached_property
    def straight(self) -> tuple[Loop, ...]:
        """The loops of the straight code."""
        return self.loops.loops[self.body :]

    @property
    def writes(self) -> tuple[Access, ...]:
        """The accesses that store."""
        return tuple(a for a in self.accesses if a.written)


@dataclass(frozen=True, eq=False)
class Levels:
    """All stages that cost time at each call, in program order; left out is what is prepared (schedules/prepared.py), and sums
    that only numbers that are not ordinary ask for (tensor/exceptional.py)."""

    tree: LoopTree
    stages: dict[str, StageLevels]
    boxes: dict[str, dict[str, regions.BoxAxis]]  # of attached stages

    @property
    def roots(self) -> tuple[StageLevels, ...]:
        """The stages at the root: one nest each."""
        return tuple(s for s in self.stages.values() if s.loops.at is None)

    def attached(self, stage: StageLevels, level: int) -> tuple[StageLevels, ...]:
        """The stages that run directly inside the loop that opens `level` of a stage."""
        if level == 0:
            return ()
        names = self.tree.attached.get((stage.name, stage.loops.loops[level - 1].name), ())
        return tuple(self.stages[name] for name in names if name in self.stages)

    def below(self, inner: str, axis: str, sizes: Sizes) -> Value:
        """The size of an attached stage's axis, from the sizes of the stage around it at some level."""
        box = self.boxes[inner][axis]
        total: Value = float(box.high - box.low + 1)
        for outer, coefficient in box.terms:
            if coefficient == 1 and isinstance(total, float) and total == 1.0:
                total = sizes[outer]
            else:
                total = total + coefficient * (sizes[outer] - 1.0)
        return total


def levels(tree: LoopTree, useful: Mapping[str, tuple[Bound, ...]] = MappingProxyType({})) -> Levels:
    """The numbers of a tree to which a config or a population has been applied.

    useful: what ends loops before their axes do (schedules/useful.py); their trips are counted on average.
    """
    ready = prepared_stages(tree)
    boxes = {s.stage: regions.box_axes(tree, s.stage, s.at) for s in tree.stages if s.at is not None}
    kept = [s for s in tree.stages if s.stage not in ready and asked_for(tree.definition(s.stage)) is None]
    return Levels(tree, {s.stage: _stage(tree, s, useful.get(s.stage, ())) for s in kept}, boxes)


def _stage(tree: LoopTree, stage: StageLoops, bounds: tuple[Bound, ...]) -> StageLevels:
    definition = tree.definition(stage.stage)
    full = tuple(is_full(tree, stage, x) for x in stage.loops)
    reduces = tuple(is_reduction(tree, stage.stage, x.axis) for x in stage.loops)
    trips, sizes = _counts(tree, stage, full, bounds)
    body = len(full) - (stage.tensorized is not None)  # the words of a tile are a reduction, but no loop
    while body and (full[body - 1] or _runs_once(stage.loops[body - 1])):
        body -= 1
    start = None
    for depth in reversed(range(len(full))):
        if reduces[depth]:
            start = depth
        elif not full[depth]:
            break
    return StageLevels(stage, definition, trips, sizes, body, start, reduces, full, _accesses(tree, stage, definition))


def _runs_once(loop: Loop) -> bool:
    """Whether it is no loop in the code: what splitting an axis by its own extent leaves."""
    return loop.kind is LoopKind.SERIAL and isinstance(loop.extent, int) and loop.extent == 1


def _counts(
    tree: LoopTree, stage: StageLoops, full: tuple[bool, ...], bounds: tuple[Bound, ...]
) -> tuple[tuple[Value, ...], tuple[dict[str, Value], ...]]:
    """(trips, sizes) of all levels. Sizes keep their identity from level to level where nothing changes them."""
    start = regions.opening(tree, stage)
    opened = {axis: real(regions.instances(sizes)) for axis, sizes in start.sizes.items()}
    unrelated = real(start.unrelated)
    reach = dict(opened)
    points = {
        axis: sum((real(size) * real(count) for size, count in sizes), 0.0) for axis, sizes in start.sizes.items()
    }
    size = {axis: points[axis] / np.maximum(opened[axis], 1.0) for axis in points}
    run = _shares(stage, tree.definition(stage.stage), size, bounds) if bounds else {}
    for axis, part in run.items():
        points[axis], size[axis] = points[axis] * part, size[axis] * part
    trips = [_total(unrelated, reach)]
    sizes_at = [dict(size)]
    for depth, loop in enumerate(stage.loops):
        axis = loop.axis
        reach[axis] = real(regions.reached(tree, stage, start, axis, depth + 1))
        if axis in run:
            reach[axis] = reach[axis] * run[axis]
        size[axis] = real(loop.stride) if full[depth] else points[axis] / np.maximum(reach[axis], 1.0)
        trips.append(_total(unrelated, reach))
        sizes_at.append(dict(size))
    return tuple(trips), tuple(sizes_at)


def _shares(
    stage: StageLoops, definition: Stage, opened: Mapping[str, Value], bounds: tuple[Bound, ...]
) -> dict[str, Value]:
    """Axis -> the share of it that its loops run over on average, for axes that bounds end (codegen/lower/useful.py)."""
    found: dict[str, Value] = {}
    extents = {a.name: a.extent for a in definition.all_axes}
    size = dict(opened)
    for loop in stage.loops:
        if loop is stage.pieces(loop.axis)[0] and (step := ends_early(stage, loop)) is not None:
            for bound in ending(definition, bounds, loop.axis):
                part = share(extents, bound, loop.axis, size, real(step))
                found[loop.axis] = np.minimum(found.get(loop.axis, 1.0), part)
        size[loop.axis] = np.minimum(size[loop.axis], real(loop.stride))
    return found


def _total(unrelated: Value, reach: dict[str, Value]) -> Value:
    total = unrelated
    for count in reach.values():
        total = total * count
    return total


# ---- accesses --------------------------------------------------------------------------------------------------------


def _accesses(tree: LoopTree, stage: StageLoops, definition: Stage) -> tuple[Access, ...]:
    """The memory accesses of a stage; tensors that stay in registers are none."""
    found = [a for alike in _alike(definition) if (a := _read(tree, *alike)) is not None]
    if not in_registers(tree, stage):
        for number, tensor in enumerate(definition.tensors):
            indices = tuple(axis.var for axis in definition.axes_of(number))
            made = _access(tree, Read(tensor.name, indices, tensor.dtype), [[0]] * len(indices), written=True)
            found.append(made)
    return tuple(found)


def _alike(definition: Stage) -> list[tuple[Read, list[list[int]]]]:
    """Reads that differ by constants in their indices, as the parts of a word or the points of a window do, are one access:
    the first of them, and for each index the distances of all from it."""
    groups: dict[tuple[object, ...], list[Read]] = {}
    for read in definition.reads():
        forms = [affine(index) for index in read.indices]
        groups.setdefault((read.tensor, *(form.terms for form in forms)), []).append(read)
    found = []
    for group in groups.values():
        places = [[affine(index).constant for index in read.indices] for read in group]
        found.append((group[0], [[n - column[0] for n in column] for column in zip(*places, strict=True)]))
    return found


def _read(tree: LoopTree, read: Read, distances: list[list[int]]) -> Access | None:
    producer = tree.program.producers.get(read.tensor)
    if producer is not None and in_registers(tree, tree.by_stage[producer.name]):
        return None
    return _access(tree, read, distances, written=False)


def _access(tree: LoopTree, read: Read, distances: list[list[int]], written: bool) -> Access:
    tensor = tree.program.tensors[read.tensor]
    shape, dense = _storage(tree, read.tensor)
    kept = [n for n, extent in enumerate(tensor.shape) if extent > 1]
    declared = read.tensor in tree.program.outputs or read.tensor not in tree.program.producers
    strides = tuple(prod(tensor.shape[n + 1 :]) * tensor.dtype.bytes for n in kept[:-1]) if declared else ()
    return Access(
        tensor=read.tensor,
        spans=tuple(span_of(read.indices[n], tensor.shape[n]).moved_by(distances[n]) for n in kept),
        shape=tuple(shape[n] for n in kept),
        axes=frozenset().union(*(variables(index) for index in read.indices)),
        element=tensor.dtype.bytes,
        written=written,
        dense=dense,
        strides=strides,
    )


def _storage(tree: LoopTree, name: str) -> tuple[tuple[Value, ...], bool]:
    """(allocated points along each dimension, whether boxes of it are contiguous)."""
    tensor = tree.program.tensors[name]
    producer = tree.program.producers.get(name)
    if producer is None or name in tree.program.outputs:
        return tuple(float(extent) for extent in tensor.shape), False
    stage = tree.by_stage[producer.name]
    held = regions.storage_box(tree, stage)
    number = [t.name for t in producer.tensors].index(name)
    return tuple(real(held[axis.name]) for axis in producer.axes_of(number)), stage.tiled


def in_registers(tree: LoopTree, stage: StageLoops) -> bool:
    """Whether the values of an attached stage can stay in registers: it and its one reader meet in straight code."""
    if stage.at is None or stage.scope not in (None, Scope.REGISTER) or (stage.tiled and stage.scope is None):
        return False
    if stage.tensorized is not None:
        return False  # the registers of a matrix unit hold tiles, which vectors get at through memory
    definition = tree.definition(stage.stage)
    readers = tree.program.consumers[definition.name]
    if len(definition.tensors) != 1 or len(readers) != 1 or readers[0].name != stage.at[0]:
        return False
    outer = tree.by_stage[stage.at[0]]
    inside = outer.loops[outer.position(stage.at[1]) + 1 :]
    spatial = {axis.name for axis in definition.axes}
    own = all(is_full(tree, stage, loop) for loop in stage.loops if loop.axis in spatial)
    return own and all(is_full(tree, outer, loop) for loop in inside)
