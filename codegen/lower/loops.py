"""The loops of one stage: clamped ones, register tiles with masks, and what is attached inside of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from ...schedules.loops import Loop, LoopKind, LoopTree, StageLoops, is_full, is_reduction
from ...schedules.plan.stage import Plan
from ...schedules.steps.checks import wrong
from ...targets.target import Target
from ...tensor.program import Stage
from ..ir.index import both, ceil_div, floor_div, known, less, number, plus, smaller, times
from ..ir.loop_ir import Allocate, Block, Buffer, For, Let, Scope, Statement
from .body import StageBody
from .prefetch import prefetches
from .storage import Storage
from .threads import BoundLoops
from .useful import shortened
from .view import ALONE, AxisRange, Inner, Names, Team, View, fixed

Leaf = Callable[[View], Statement]
Next = Callable[[View, int], Statement]


class Around(Protocol):
    """Holds what a stage needs of the nest that it stands in."""

    tree: LoopTree
    plan: Plan
    target: Target
    storage: dict[str, Storage]
    names: Names
    body: StageBody

    def attached(self, name: str, view: View) -> tuple[View, Statement]:
        """An attached stage opened in a view; the view that comes back knows where its box begins."""
        ...

    def begun(self, name: str, view: View) -> View:
        """The view that knows where the box of an attached stage begins, which runs on first use."""
        ...

    def first_use(self, name: str, view: View) -> Statement:
        """Computes what a trip of a loop farther inside reads of an attached stage, where it is the first to."""
        ...


class LoopLowering:
    """The loops of one stage; what stands inside is given by whoever opens them. `team`: the threads that run them."""

    def __init__(self, nest: Around, stage: StageLoops, team: Team = ALONE) -> None:
        self.nest = nest
        self.threads = BoundLoops(nest.names, stage, team, nest.target.isa.gpu)
        self.names = nest.names
        self.stage = stage
        self.loops = stage.loops
        self.definition: Stage = nest.tree.definition(stage.stage)
        self.planned = nest.plan.stages[stage.stage].loops
        self.full = self.planned.full
        self.reduces = self.planned.reduces
        self.first_reduction = self.planned.first_reduction
        self.fills = nest.storage[self.definition.tensors[0].name].fills

    def with_attached(self, view: View, loop: Loop, inner: Inner, skip: frozenset[str] = frozenset()) -> Statement:
        """Returns what stands in a loop: hints, the stages attached to it (but those to skip), in program order, then the
        rest."""
        before: list[Statement] = list(prefetches(self.nest.body, self.names, self.stage, loop, view))
        made: list[Buffer] = []
        for name in self.nest.tree.attached.get((self.stage.stage, loop.name), ()):
            if name in skip:
                continue
            if self.nest.tree.by_stage[name].first_use is None:
                view, statement = self.nest.attached(name, view)
                before.append(statement)
            else:
                view = self.nest.begun(name, view)
            if self.nest.tree.by_stage[name].stored is None:
                made += self._buffers(name)
        for inside in self.loops[self.stage.position(loop.name) + 1 :][:1]:
            for name in self.nest.tree.attached.get((self.stage.stage, inside.name), ()):
                if self.nest.tree.by_stage[name].stored == loop.name:
                    made += self._buffers(name)
        bits = self.nest.tree.used_first.get((self.stage.stage, loop.name), ())
        before += [self.nest.first_use(name, view) for name in bits]
        body = Block((*before, inner(view))) if before else inner(view)
        for buffer in reversed(made):
            body = Allocate(buffer, body)
        return body

    def _buffers(self, stage: str) -> list[Buffer]:
        """The buffers of an attached stage that its loop allocates."""
        buffers = [self.nest.storage[t.name].buffer for t in self.nest.tree.definition(stage).tensors]
        return [buffer for buffer in buffers if buffer.scope is not Scope.OUTPUT]

    def loop(self, view: View, depth: int, inner: Next) -> Statement:
        """The loop at a depth, ended where no later point is of use, with what `inner` gives inside and all that stands there
        beside it."""
        run = partial(self.whole_loop, depth=depth, inner=inner)
        return shortened(self.names, self.stage, self.loops[depth], self.planned.ends[depth], view, run)

    def whole_loop(self, view: View, depth: int, inner: Next) -> Statement:
        """The same over the whole axis."""
        loop = self.loops[depth]
        if self.full[depth]:
            return self.full_loop(view, loop, lambda v: inner(v, depth + 1), loop.name)
        return self.clamped(view, depth, inner)

    def clamped(self, view: View, depth: int, inner: Next) -> Statement:
        """A loop that stops at the edge, with the stages attached to it."""
        loop = self.loops[depth]
        return self.clamped_loop(
            view, loop, lambda v: self.with_attached(v, loop, lambda w: inner(w, depth + 1)), loop.name
        )

    def clamped_loop(self, view: View, loop: Loop, inner: Inner, label: str) -> Statement:
        """A loop that stops at the edge."""
        if self.threads.strides(view, loop):
            return self.threads.strided(view, loop, lambda v: self.clamped_loop(v, loop, inner, label))
        place = view.places[self.stage.stage, loop.axis]
        stride = fixed(loop.stride)
        variable = self.names.variable(loop.name, fixed(loop.extent))
        extent = ceil_div(place.size, stride, self.names.bounds)
        position = plus(place.position, times(variable, stride))
        view = self.threads.inside(view.opening(loop.name, variable), loop)
        view = self.threads.diverging(view, loop, extent)
        # an unrolled reduction piece that could not be merged with the loop around it runs as a loop
        kind = LoopKind.PARALLEL if loop.kind is LoopKind.PARALLEL else LoopKind.SERIAL
        if self.names.multiple(place.size) % stride == 0:
            body = inner(view.moved(self.stage.stage, loop.axis, AxisRange(position, number(stride))))
        else:
            size = self.names.variable(f"{loop.name}.size", stride + 1)
            left = plus(place.size, times(variable, -stride))
            least = smaller(number(stride), left)
            self.names.multiples[size.name] = self.names.multiple(least)
            self.threads.sized(size, loop, left)
            body = inner(view.moved(self.stage.stage, loop.axis, AxisRange(position, size)))
            body = Let(size.name, least, body)
        if self.threads.binds(loop):
            return self.threads.branch(view, loop, variable, extent, body)
        return For(variable.name, extent, body, kind, label=label)

    def full_loop(self, view: View, loop: Loop, inner: Inner, label: str) -> Statement:
        """A piece that runs all its trips; at an edge `valid` says which of them are real."""
        if self.threads.strides(view, loop):
            return self.threads.strided(view, loop, lambda v: self.full_loop(v, loop, inner, label))
        place = view.places[self.stage.stage, loop.axis]
        stride, extent = fixed(loop.stride), fixed(loop.extent)
        if loop.kind is LoopKind.VECTOR and extent & (extent - 1):
            raise wrong(
                self.nest.tree, loop.name, f"the vector {loop.name} has {extent} trips",
                expected="a power of two", advice="split the axis by s.lanes(dtype)",
            )  # fmt: skip
        variable = self.names.variable(loop.name, extent)
        position = plus(place.position, times(variable, stride))
        below = self.threads.inside(view.opening(loop.name, variable), loop)
        points = known(place.size)
        reduces = is_reduction(self.nest.tree, self.stage.stage, loop.axis)
        if reduces:
            below = self.threads.without_spare(below, loop)
        # without a loop around the lanes nobody has peeled off the last trip
        ragged = (view.tail or loop is self.stage.pieces(loop.axis)[0]) if reduces else view.edge
        if not ragged or (points is not None and points >= stride * extent):
            body = inner(below.moved(self.stage.stage, loop.axis, AxisRange(position, number(stride))))
            return self.threads.trips(view, loop, variable, body, None, label)
        # a GPU's lanes are few: often each trip is there as a whole or not at all
        whole = self.nest.target.is_gpu and self.names.multiple(place.size) % stride == 0
        left = number(stride) if whole else plus(place.size, times(variable, -stride))
        below = below.moved(self.stage.stage, loop.axis, AxisRange(position, left))
        below = replace(below, tail=True) if reduces else below
        if reduces or self.stage.copies is not None or (loop is self.loops[-1] and self.fills):
            # zeros fill the overhang of a copy or a piece, the identity that of a reduction
            if stride == 1 or whole:
                count = floor_div(place.size, stride, self.names.bounds)
                below = replace(below, lanes=both(below.lanes, less(variable, count)))
            return self.threads.trips(view, loop, variable, inner(below), None, label)
        valid = ceil_div(place.size, stride, self.names.bounds)
        return self.threads.trips(view, loop, variable, inner(below), valid, label)

    def alone(self, view: View, loops: Sequence[Loop], leaf: Leaf, counted: bool = False) -> Statement:
        """Some loops of this stage with nothing attached inside.

        counted: they are the trips of the schedule's loops; else they come before or after these.
        """
        if not loops:
            return leaf(view)
        loop, rest = loops[0], loops[1:]
        label = loop.name if counted else ""

        def inner(v: View) -> Statement:
            return self.alone(v, rest, leaf, counted)

        if is_full(self.nest.tree, self.stage, loop):
            return self.full_loop(view, loop, inner, label)
        return self.clamped_loop(view, loop, inner, label)
