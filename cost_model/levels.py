"""The nests of a loop tree as a cost model walks them: for each stage and each loop level, trips and sizes.

Level d of a stage is what runs inside its first d loops. Counts are exact totals over a whole run (schedules/regions.py);
sizes are means, so that sizes times trips is what is really covered when the last tile is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ..common.cached import cached_property
from ..schedules import regions
from ..schedules.boxes import BoxAxis, box_axes
from ..schedules.loops import Loop, LoopKind, LoopTree, Scope, StageLoops
from ..schedules.plan.loops import LoopPlan
from ..schedules.plan.stage import Plan, StagePlan
from ..schedules.useful import ends_early, share
from ..tensor.exceptional import exceptional_condition
from ..tensor.expr import Read, variables
from ..tensor.indices.forms import affine
from ..tensor.indices.intervals import Bounds
from ..tensor.program import Stage
from ..tensor.scan import InStep
from .footprint import Access, AxisSizes, Value, far_parts, real, span_of
from .populations import one_plan

PARALLEL = (LoopKind.PARALLEL, LoopKind.BLOCK, LoopKind.WARP, LoopKind.THREAD)


@dataclass(frozen=True, eq=False)
class StageLevels:
    """A stage with its loops in numbers, and its plan (schedules/plan/).

    trips[d]: how many times level d runs in all; sizes[d]: points of each axis that one run of it covers.
    body: the level from which on all loops are unrolled or vectors: straight code.
    """

    loops: StageLoops
    definition: Stage
    trips: tuple[Value, ...]
    sizes: tuple[dict[str, Value], ...]
    body: int
    plan: StagePlan
    accesses: tuple[Access, ...]

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.loops.stage

    @property
    def registers(self) -> int | None:
        """The level at which values are moved between registers and storage; None where each step works in the storage."""
        return self.plan.loops.accumulate_at

    @property
    def asked(self) -> float:
        """Points that the program asks for."""
        run, placed = {loop.axis for loop in self.loops.loops}, self.plan.loops.scattered
        axes = [axis for axis in self.definition.all_axes if axis.name in run]
        return float(prod(axis.extent for axis in axes if placed is None or axis.name not in placed.places))

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
    """All stages that cost time at each call, in program order; left out is what is prepared, and sums
    that only numbers that are not ordinary ask for (tensor/exceptional.py)."""

    tree: LoopTree
    plan: Plan
    stages: dict[str, StageLevels]
    boxes: dict[str, dict[str, BoxAxis]]  # of attached stages

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

    def is_prepared(self, tensor: str) -> bool:
        """Says whether a tensor is made once, of constants alone."""
        producer = self.tree.program.producers.get(tensor)
        return producer is not None and self.plan.stages[producer.name].prepared

    def below(self, inner: str, axis: str, sizes: AxisSizes) -> Value:
        """The size of an attached stage's axis, from the sizes of the stage around it at some level."""
        box = self.boxes[inner][axis]
        total: Value = float(box.high + 1 if box.divisor > 1 else box.high - box.low + 1)
        for outer, coefficient in box.terms:
            if coefficient == 1 and isinstance(total, float) and total == 1.0:
                total = sizes[outer]
            else:
                total = total + coefficient * (sizes[outer] - 1.0)
        if box.divisor > 1:
            total = np.floor((total - 1.0) / box.divisor) + float(1 - box.low // box.divisor)
        return total if box.times == 1 else total * float(box.times)


def levels(tree: LoopTree, plan: Plan | None = None) -> Levels:
    """The numbers of a tree to which a config or a population has been applied, all of whose candidates have one plan.

    Trips of loops that end before their axes do are counted on average.
    """
    plan = one_plan(tree, gpu=False) if plan is None else plan
    boxes = {s.stage: box_axes(tree, s.stage, s.at) for s in tree.stages if s.at is not None}
    kept = [
        name
        for name, stage in plan.stages.items()
        if not stage.prepared and exceptional_condition(tree.definition(name)) is None
    ]
    return Levels(tree, plan, {name: _stage(tree, plan, name) for name in kept}, boxes)


def _stage(tree: LoopTree, plan: Plan, name: str) -> StageLevels:
    own, definition = _run(plan.stages[name]), tree.definition(name)
    trips, sizes = _counts(tree, own.stage, own.loops)
    return StageLevels(
        own.stage,
        definition,
        trips,
        sizes,
        own.body,
        own,
        _accesses(tree, plan, own, definition),
    )


def _run(own: StagePlan) -> StagePlan:
    """The plan without loops that nobody runs."""
    aside = own.loops.aside
    if not aside:
        return own
    kept = [depth for depth, loop in enumerate(own.stage.loops) if loop.name not in aside]
    stage = replace(own.stage, loops=tuple(own.stage.loops[depth] for depth in kept))
    full, reduces = (tuple(facts[depth] for depth in kept) for facts in (own.loops.full, own.loops.reduces))
    ends = tuple(own.loops.ends[depth] for depth in kept)
    return replace(own, stage=stage, loops=replace(own.loops, full=full, reduces=reduces, ends=ends))


def _counts(
    tree: LoopTree, stage: StageLoops, planned: LoopPlan
) -> tuple[tuple[Value, ...], tuple[dict[str, Value], ...]]:
    """(trips, sizes) of all levels. Sizes keep their identity from level to level where nothing changes them."""
    start = regions.opening(tree, stage)
    run = {loop.axis for loop in stage.loops} | (planned.scattered.places.keys() if planned.scattered else set())
    held = {axis: sizes for axis, sizes in start.sizes.items() if axis in run}
    opened = {axis: real(regions.instances(sizes)) for axis, sizes in held.items()}
    unrelated = real(start.unrelated)
    reach = dict(opened)
    points = {axis: sum((real(size) * real(count) for size, count in sizes), 0.0) for axis, sizes in held.items()}
    size = {axis: points[axis] / np.maximum(opened[axis], 1.0) for axis in points}
    shares = _shares(stage, planned, tree.definition(stage.stage), size) if any(planned.ends) else {}
    for axis, part in shares.items():
        points[axis], size[axis] = points[axis] * part, size[axis] * part
    trips = [_total(unrelated, reach)]
    sizes_at = [_met(size, stage, planned, tree)]
    for depth, loop in enumerate(stage.loops):
        axis = loop.axis
        reach[axis] = real(regions.reached(tree, stage, start, axis, depth + 1))
        if axis in shares:
            reach[axis] = reach[axis] * shares[axis]
        size[axis] = real(loop.stride) if planned.full[depth] else points[axis] / np.maximum(reach[axis], 1.0)
        trips.append(_total(unrelated, reach))
        sizes_at.append(_met(size, stage, planned, tree))
    return tuple(trips), tuple(sizes_at)


def _met(size: dict[str, Value], stage: StageLoops, planned: LoopPlan, tree: LoopTree) -> dict[str, Value]:
    """Points of each axis at a level. Terms at computed places meet no more places than they are many."""
    if planned.scattered is None:
        return dict(size)
    terms: Value = 1.0
    for axis in tree.definition(stage.stage).reduction:
        terms = terms * size[axis.name]
    return size | {axis: np.minimum(size[axis], terms) for axis in planned.scattered.places}


def _shares(stage: StageLoops, planned: LoopPlan, definition: Stage, opened: Mapping[str, Value]) -> dict[str, Value]:
    """Axis -> the share of it that its loops run over on average, for axes that bounds end (codegen/lower/useful.py)."""
    found: dict[str, Value] = {}
    extents = {a.name: a.extent for a in definition.all_axes}
    size = dict(opened)
    for loop, bounds in zip(stage.loops, planned.ends, strict=True):
        step = ends_early(stage, loop)
        if step is not None:
            for bound in bounds:
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


def _accesses(tree: LoopTree, plan: Plan, own: StagePlan, definition: Stage) -> tuple[Access, ...]:
    """The memory accesses of a stage; tensors that stay in registers are none."""
    bounds = {axis.name: (0, axis.extent - 1) for axis in definition.all_axes}
    found = [a for alike in _alike(definition) if (a := _read(tree, plan, *alike, bounds)) is not None]
    written = [n for n, s in enumerate(own.storage) if own.loops.stored[n] and s.scope is not Scope.REGISTER]
    return (*found, *(_written(tree, plan, definition, n, own.loops.in_step.get(n)) for n in written))


def _written(tree: LoopTree, plan: Plan, definition: Stage, number: int, in_step: InStep | None) -> Access:
    """The stores to a tensor; what is written in step is written at the place of each step."""
    tensor, axes = definition.tensors[number], definition.axes_of(number)
    places = {} if in_step is None else {in_step.axis: in_step.place}
    read = Read(tensor.name, tuple(places.get(axis.name, axis.var) for axis in axes), tensor.dtype)
    access = _access(tree, plan, read, [[0]] * len(axes), written=True)
    return access if in_step is None else replace(access, each_step=True)


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


def _read(tree: LoopTree, plan: Plan, read: Read, distances: list[list[int]], bounds: Bounds) -> Access | None:
    stored = plan.of_tensor(read.tensor)
    if stored is not None and stored.scope is Scope.REGISTER:
        return None
    access = _access(tree, plan, read, distances, written=False)
    declared = stored is None or stored.scope is Scope.OUTPUT
    apart = far_parts(read.indices[-1], bounds, access.element) if declared and len(read.indices) == 1 else None
    if apart is None:
        return access
    part, rest, step = apart
    parts = -(-tree.program.tensors[read.tensor].shape[0] // step)
    spans = span_of(part, parts), span_of(rest, step).moved_by(distances[0])
    return replace(access, spans=spans, shape=(float(parts), float(step)), strides=(step * access.element,))


def _access(tree: LoopTree, plan: Plan, read: Read, distances: list[list[int]], written: bool) -> Access:
    tensor = tree.program.tensors[read.tensor]
    shape, dense = _storage(tree, plan, read.tensor)
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


def _storage(tree: LoopTree, plan: Plan, name: str) -> tuple[tuple[Value, ...], bool]:
    """(allocated points along each dimension, whether boxes of it are contiguous)."""
    stored, producer = plan.of_tensor(name), tree.program.producers.get(name)
    if stored is None or producer is None or stored.scope is Scope.OUTPUT:
        return tuple(float(extent) for extent in tree.program.tensors[name].shape), False
    number = [t.name for t in producer.tensors].index(name)
    held = tuple(real(stored.held[axis.name]) for axis in producer.axes_of(number))
    return held, tree.by_stage[producer.name].tiled
