"""Folds as loop IR: state that is carried along an ordered axis, in the order of that axis.

    loops over common axes               (those that every tensor of the state keeps)
      state = initial values             where the outermost piece of the ordered axis opens, for all points inside
      pieces of the ordered axis, other common loops, and what is attached to them
        tensors with most axes first:    loops over their other axes, then new values stored over the old ones

Where nothing but pieces of the ordered axis and full pieces stand inside of a piece of the ordered axis, the state is held in
registers there: it is set or loaded before, and stored after. What nobody else reads is not stored at all.

A tensor may read the old values of tensors with as many axes as itself or fewer. So tensors with more axes are updated first,
and those with the same axes together, by way of registers: every read finds the value from before this step. What is written
in step (tensor/scan.py) is no state that anybody reads: it comes first, at the place of the step alone, without initial value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from ...common.errors import ScheduleError
from ...schedules.loops import Loop, LoopKind, StageLoops
from ...schedules.plan.loops import common_axes
from ...schedules.steps.checks import attached_to, wrong
from ...tensor.expr import Const, Expr, Read, rewrite
from ...tensor.scan import InStep, without_locals
from ..ir.index import number as literal
from ..ir.index import plus
from ..ir.loop_ir import Allocate, Block, Buffer, If, Scope, Statement, Store
from .body import stored
from .loops import Around, LoopLowering
from .view import ALONE, AxisRange, Team, View, fixed


class FoldLowering(LoopLowering):
    """The loops and the statements of a fold. ScheduleError: loops in an order in which a step would be taken in parts."""

    def __init__(self, nest: Around, stage: StageLoops, team: Team = ALONE) -> None:
        super().__init__(nest, stage, team)
        self.values = without_locals(self.definition)
        self.in_step = self.planned.in_step
        self.ranks = [len(self.definition.axes_of(n)) for n in range(len(self.definition.tensors))]
        common = common_axes(self.definition)
        self.step_at = next((d for d, x in enumerate(self.loops) if x.axis not in common), len(self.loops))
        self.hold_at = self.planned.accumulate_at
        self.held: dict[int, Buffer] = {}
        self._check(common)

    def _check(self, common: frozenset[str]) -> None:
        for depth, loop in enumerate(self.loops):
            if depth > self.step_at and loop.axis in common:
                raise self._refused(loop, "stands inside of a loop over an axis that only some of its tensors have")
            if self.reduces[depth] and loop.kind is not LoopKind.SERIAL:
                raise self._refused(loop, f"is a {loop.kind} loop of the ordered axis")
        for other in attached_to(self.nest.tree, self.stage.stage):
            depth = 0 if other.at is None else self.stage.position(other.at[1])
            if depth >= self.step_at:
                raise self._refused(self.loops[depth], "is part of a step and has a stage attached to it")

    def _refused(self, loop: Loop, why: str) -> ScheduleError:
        return wrong(
            self.nest.tree, loop.name, f"{loop.name} {why}: the fold {self.stage.stage} has no code for that",
            expected="serial loops of the ordered axis, and the axes that only some tensors have innermost, with nothing "
            "attached to them",
        )  # fmt: skip

    def statement(self, view: View) -> Statement:
        """All loops and what they do."""
        return self._descend(replace(view, edge=True, only=self.threads.only(view)), 0)

    def _descend(self, view: View, depth: int) -> Statement:
        start: list[Statement] = []
        if depth == self.first_reduction and depth != self.hold_at:
            inside = [x for d, x in enumerate(self.loops) if d > depth and not self.reduces[d]]
            start = [
                self.alone(view, self._own(n, inside), partial(self._set_initial, number=n)) for n in self._states()
            ]
        run = self._hold(view, depth) if depth == self.hold_at else self._loop(view, depth)
        return Block((*start, run)) if start else run

    def _states(self) -> list[int]:
        return [n for n in range(len(self.definition.tensors)) if n not in self.in_step]

    # ---- state in registers ----

    def _hold(self, view: View, depth: int) -> Statement:
        """A piece of the ordered axis with the state in registers."""
        assert self.definition.fold is not None
        plain = replace(view, edge=False, tail=False)
        before: list[Statement] = []
        after: list[Statement] = []
        for number in self._states():
            tensor, tile = self.definition.tensors[number], self._tile_of(number, depth)
            shape = tuple(fixed(x.extent) for x in tile)
            name = self.names.fresh(f"{tensor.name}.state")
            self.held[number] = Buffer(name, tensor.dtype, shape, Scope.REGISTER, padded=True)
            if depth == self.first_reduction:
                first = self.definition.fold.initial[number]
                before.append(self.alone(plain, tile, partial(self._set_held, number=number, value=first)))
            else:
                before.append(self.alone(view, tile, partial(self._load, number=number)))
            if self.planned.stored[number]:
                after.append(self.alone(view, tile, partial(self._keep, number=number)))
        statement: Statement = Block((*before, self._loop(view, depth), *after))
        for register in self.held.values():
            statement = Allocate(register, statement)
        self.held = {}
        return statement

    def _tile_of(self, number: int, depth: int) -> list[Loop]:
        return self._own(number, [x for d, x in enumerate(self.loops) if d > depth and not self.reduces[d]])

    def _element(self, number: int, view: View) -> tuple[Expr, ...]:
        assert self.hold_at is not None
        return tuple(view.variables[x.name] for x in self._tile_of(number, self.hold_at))

    def _set_held(self, view: View, number: int, value: Expr) -> Statement:
        return Store(self.held[number].name, self._element(number, view), value)

    def _load(self, view: View, number: int) -> Statement:
        buffer, indices = self.nest.body.place(self.stage, number, view)
        return self._set_held(view, number, Read(buffer.name, indices, buffer.dtype))

    def _keep(self, view: View, number: int) -> Statement:
        buffer, indices = self.nest.body.place(self.stage, number, view)
        register = self.held[number]
        value = Read(register.name, self._element(number, view), register.dtype)
        return stored(buffer, view, Store(buffer.name, indices, value))

    def _value(self, view: View, expr: Expr, otherwise: Const) -> Expr:
        """An expression of a step; state that is held is read from its registers."""
        value = self.nest.body.guarded(self.stage, expr, view, otherwise=otherwise)
        names = {self.nest.storage[self.definition.tensors[n].name].buffer.name: n for n in self.held}

        def in_register(node: Expr) -> Expr | None:
            if not isinstance(node, Read) or node.tensor not in names:
                return None
            number = names[node.tensor]
            return Read(self.held[number].name, self._element(number, view), node.dtype)

        return rewrite(value, in_register) if names else value

    # ---- steps ----

    def _loop(self, view: View, depth: int) -> Statement:
        if depth == self.step_at:
            return self._step(view)
        return self.loop(view, depth, self._descend)

    def _own(self, number: int, loops: Sequence[Loop]) -> list[Loop]:
        """Returns the loops that are of axes of a tensor."""
        axes = {a.name for a in self.definition.axes_of(number)}
        return [loop for loop in loops if loop.axis in axes]

    def _set_initial(self, view: View, number: int) -> Statement:
        assert self.definition.fold is not None
        buffer, indices = self.nest.body.place(self.stage, number, view)
        return stored(buffer, view, Store(buffer.name, indices, self.definition.fold.initial[number]))

    def _step(self, view: View) -> Statement:
        """One step of the ordered axis."""
        made = [self._place_in_step(view, number, found) for number, found in self.in_step.items()]
        order = sorted(self._states(), key=self.ranks.__getitem__, reverse=True)
        for rank, numbers in groupby(order, key=self.ranks.__getitem__):
            group = list(numbers)
            loops = self._own(group[0], self.loops[self.step_at :])
            counted = rank == len(self.definition.axes)
            made.append(self.alone(view, loops, partial(self._update, group=group), counted))
        return Block(tuple(made))

    def _place_in_step(self, view: View, number: int, found: InStep) -> Statement:
        """The elements that this step writes."""
        assert self.definition.fold is not None
        loops = [x for x in self._own(number, self.loops[self.step_at :]) if x.axis != found.axis]
        initial = self.definition.fold.initial[number]

        def leaf(v: View) -> Statement:
            box = v.places[self.stage.stage, found.axis]
            position = self.nest.body.at(self.stage, found.place, v)
            at = v.moved(self.stage.stage, found.axis, AxisRange(position, literal(1)))
            buffer, indices = self.nest.body.place(self.stage, number, at)
            value = self._value(at, found.value, initial)
            store = stored(buffer, at, Store(buffer.name, indices, value))
            if box == AxisRange(literal(0), literal(self.definition.axis(found.axis).extent)):
                return store
            return If((position >= box.position) & (position < plus(box.position, box.size)), store)

        return self.alone(view, loops, leaf)

    def _update(self, view: View, group: list[int]) -> Statement:
        """New values of tensors with the same axes: all computed before any is stored."""
        whole = zip(self.loops, self.full, strict=True)
        tile = [x for x, full in whole if full and x.name in view.variables and not self.threads.binds(x)]
        shape, element = tuple(fixed(x.extent) for x in tile), tuple(view.variables[x.name] for x in tile)
        made: list[Buffer] = []
        compute: list[Statement] = []
        keep: list[Statement] = []
        assert self.definition.fold is not None
        for number in group:
            dtype = self.definition.tensors[number].dtype
            register = Buffer(self.names.fresh("next"), dtype, shape, Scope.REGISTER, padded=True)
            value = self._value(view, self.values[number], self.definition.fold.initial[number])
            made.append(register)
            compute.append(Store(register.name, element, value))
            new = Read(register.name, element, dtype)
            if number in self.held:
                keep.append(self._set_held(view, number, new))
            else:
                buffer, indices = self.nest.body.place(self.stage, number, view)
                keep.append(stored(buffer, view, Store(buffer.name, indices, new)))
        statement: Statement = Block((*compute, *keep))
        for register in made:
            statement = Allocate(register, statement)
        return statement
