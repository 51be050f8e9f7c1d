"""Software pipelining: the copies to shared memory that a loop needs are on their way some trips ahead of their use.

for k: 8                       copy trips 0 .. n - 2, each a group
  copy b[k]             ->     for k: 8
  use b                          wait until all but n - 2 groups have arrived
                                 if k + n - 1 < 8: copy trip k + n - 1 to slot (k + n - 1) % n
                                 commit (a group for each trip, be it empty, so that counting them is enough)
                                 use slot k % n

passes/barriers.py puts one barrier between the wait and the copies: what has arrived is seen by all behind it, and the slot
that is filled next has been used by all.

Without asynchronous copies (on GPUs that have none, for accesses of less than 4 bytes, or where the schedule says so) what
comes goes through registers (staged.py): load trip k + n - 1, use slot k % n, store what was loaded. That is one barrier a
trip, too, in front of the use.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Protocol

from ...schedules.loops import Loop, LoopTree, StageLoops
from ...schedules.steps.checks import wrong
from ...tensor.expr import Expr
from ..ir.index import ceil_div, known, less, modulo, number, plus, smaller, times
from ..ir.loop_ir import Allocate, Block, Buffer, Commit, For, If, Let, LoopKind, Statement, Wait
from .loops import Around
from .staged import MOST, staged
from .view import AxisRange, Inner, Names, View, fixed

NARROWEST = 4  # bytes of an asynchronous copy


def stages_of(stage: StageLoops, loop: str) -> int:
    """Counts the trips of a loop for which its copies exist."""
    return fixed(stage.hints.pipeline(loop).depth)


def _widest_access(tree: LoopTree, stage: StageLoops) -> int:
    """Bytes that a copy moves at a time at most."""
    lanes = prod(fixed(loop.extent) for loop in stage.loops if loop.kind is LoopKind.VECTOR)
    return lanes * tree.definition(stage.stage).tensors[0].dtype.bytes


class PipelinedLoops(Protocol):
    """Holds what a pipeline needs of the stage that its loop belongs to."""

    nest: Around
    names: Names
    stage: StageLoops

    def with_attached(self, view: View, loop: Loop, inner: Inner, skip: frozenset[str] = frozenset()) -> Statement:
        """Returns what stands in a loop."""
        ...


class SoftwarePipeline:
    """One loop of a stage with copies that run ahead."""

    def __init__(self, lowering: PipelinedLoops, loop: Loop) -> None:
        self.lowering = lowering
        self.loop = loop
        tree, stage = lowering.nest.tree, lowering.stage
        inside = tree.attached.get((stage.stage, loop.name), ())
        self.ahead = [name for name in inside if fixed(lowering.nest.plan.storage(name).slots) > 1]
        self.count = stages_of(stage, loop.name)
        self.through_registers = fixed(stage.hints.pipeline(loop.name).in_registers) > 0
        wide = all(_widest_access(tree, tree.by_stage[name]) >= NARROWEST for name in self.ahead)
        self.waits = lowering.nest.target.gpu.copies_alone and wide and not self.through_registers

    def statement(self, view: View, inner: Inner) -> Statement:
        """The loop; `inner` is what stands in it behind the copies."""
        names, loop = self.lowering.names, self.loop
        place = view.places[self.lowering.stage.stage, loop.axis]
        extent = ceil_div(place.size, fixed(loop.stride), names.bounds)
        first = names.variable(f"{loop.name}.ahead", self.count - 1)
        prologue = self._guarded(first, extent, self._trip(view, first, self._copies))
        variable = names.variable(loop.name, fixed(loop.extent))
        coming = plus(variable, number(self.count - 1))
        fill = self._guarded(coming, extent, self._trip(view, coming, self._copies))
        use = self._trip(view, variable, lambda v: self._use(v, inner))
        ahead: Statement = Block((prologue, Commit())) if self.waits else prologue
        trip = Block((Wait(self.count - 2), fill, Commit(), use)) if self.waits else self._through_registers(fill, use)
        body: Statement = Block(
            (
                For(first.name, number(self.count - 1), ahead, LoopKind.UNROLL),
                For(variable.name, extent, trip, label=loop.name),
            )
        )
        for buffer in reversed(self._buffers()):
            body = Allocate(buffer, body)
        return body

    def _buffers(self) -> list[Buffer]:
        nest = self.lowering.nest
        return [nest.storage[t.name].buffer for name in self.ahead for t in nest.tree.definition(name).tensors]

    def _through_registers(self, fill: Statement, use: Statement) -> Statement:
        """A trip that loads what comes in front of its work and stores it behind that."""
        nest, loop = self.lowering.nest, self.loop
        halves = staged(fill, {b.name: b.dtype for b in self._buffers()}, self.lowering.names)
        if halves is None and self.through_registers:
            raise wrong(
                nest.tree, loop.name, f"a thread cannot hold in registers what it copies for a trip of {loop.name}",
                expected=f"copies of at most {MOST} elements a thread",
                advice="copy less in each trip, use more threads, or asynchronous copies",
            )  # fmt: skip
        if halves is None:
            return Block((fill, use))
        body: Statement = Block((halves.loads, use, halves.stores))
        for buffer in halves.registers:
            body = Allocate(buffer, body)
        return body

    def _guarded(self, trip: Expr, extent: Expr, body: Statement) -> Statement:
        count = known(extent)
        if count is not None and (known(trip) or 0) < count and isinstance(trip, type(extent)):
            return body
        return If(less(trip, extent), body)

    def _trip(self, view: View, trip: Expr, inner: Inner) -> Statement:
        """One trip of the loop, whichever it is."""
        names, loop, stage = self.lowering.names, self.loop, self.lowering.stage.stage
        place = view.places[stage, loop.axis]
        stride = fixed(loop.stride)
        position = plus(place.position, times(trip, stride))
        below = view.opening(loop.name, trip)
        slot = modulo(trip, self.count, names.bounds)
        below = replace(below, slots={**below.slots, **dict.fromkeys(self.ahead, slot)})
        points = known(place.size)
        if stride == 1 or (points is not None and points % stride == 0):
            return inner(below.moved(stage, loop.axis, AxisRange(position, number(stride))))
        size = names.variable(f"{loop.name}.size", stride + 1)
        least = smaller(number(stride), plus(place.size, times(trip, -stride)))
        names.multiples[size.name] = names.multiple(least)
        return Let(size.name, least, inner(below.moved(stage, loop.axis, AxisRange(position, size))))

    def _copies(self, view: View) -> Statement:
        made: list[Statement] = []
        view = replace(view, later=self.waits)
        for name in self.ahead:
            view, statement = self.lowering.nest.attached(name, view)
            made.append(statement)
        return Block(tuple(made))

    def _use(self, view: View, inner: Inner) -> Statement:
        for name in self.ahead:
            view, _ = self.lowering.nest.attached(name, view)
        return self.lowering.with_attached(view, self.loop, inner, skip=frozenset(self.ahead))
