"""Folds as loop IR: state that is carried along an ordered axis, in the order of that axis.

    for common axes                        (those that every tensor of the state keeps)
      state = initial values
      for ordered axis
        for tensors with most axes first:  their other axes, then new values stored over the old ones

A tensor may read the old values of tensors with as many axes as itself or fewer. So tensors with more axes are updated first,
and those with the same axes together, by way of registers: every read finds the value from before this step.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from ..schedules.loops import Loop, LoopKind, StageLoops
from ..schedules.step_checks import wrong
from ..tensor.expr import Expr, Local, Read, rewrite
from ..tensor.program import Axis, Stage
from .index import number, plus
from .loop_ir import Allocate, Block, Buffer, For, Scope, Statement, Store
from .lower_body import Body
from .view import Names, Place, View


def fold_nest(body: Body, names: Names, stage: StageLoops, view: View) -> Statement:
    """The nest of a fold at the root, loops unsplit. ScheduleError for a schedule of a fold, which has no code yet."""
    definition = body.tree.definition(stage.stage)
    ranks = [len(definition.axes_of(n)) for n in range(len(definition.tensors))]
    common = min(ranks)
    wanted = [a.name for a in (*definition.axes[:common], *definition.reduction, *definition.axes[common:])]
    plain = [loop.axis for loop in stage.loops] == wanted
    kinds = {loop.kind for loop in stage.loops[:common]} <= {LoopKind.SERIAL, LoopKind.PARALLEL}
    if (
        not plain
        or not kinds
        or stage.at is not None
        or any(x.kind is not LoopKind.SERIAL for x in stage.loops[common:])
    ):
        raise wrong(
            body.tree, stage.stage, f"the fold {stage.stage} has a schedule that no code is made for yet",
            expected="at the root, its loops unsplit in their first order, serial or parallel",
            advice="leave the fold unscheduled",
        )  # fmt: skip
    writer = _FoldWriter(body, names, stage, definition, common)
    return writer.loops(view, list(stage.loops[:common]), writer.inside_common)


class _FoldWriter:
    def __init__(self, body: Body, names: Names, stage: StageLoops, definition: Stage, common: int) -> None:
        self.body = body
        self.names = names
        self.stage = stage
        self.definition = definition
        self.common = common
        self.values = _without_locals(definition)

    def loops(
        self, view: View, loops: list[Loop], inner: Callable[[View], Statement], counted: bool = True
    ) -> Statement:
        """Nested loops over whole axes."""
        if not loops:
            return inner(view)
        loop, rest = loops[0], loops[1:]
        extent = self.definition.axis(loop.axis).extent
        variable = self.names.variable(loop.name, extent)
        place = view.places[self.stage.stage, loop.axis]
        below = view.opening(loop.name, variable).moved(
            self.stage.stage, loop.axis, Place(plus(place.position, variable), number(1))
        )
        label = loop.name if counted else ""
        return For(variable.name, number(extent), self.loops(below, rest, inner, counted), loop.kind, label=label)

    def inside_common(self, view: View) -> Statement:
        """Initial values, then the ordered loop."""
        count = len(self.definition.tensors)
        start = [self._each(view, n, lambda v, n=n: self._set_initial(v, n), False) for n in range(count)]
        ordered = self.stage.loops[self.common]
        return Block((*start, self.loops(view, [ordered], self._step)))

    def _set_initial(self, view: View, tensor: int) -> Statement:
        assert self.definition.fold is not None
        buffer, indices = self.body.place(self.stage, tensor, view)
        return Store(buffer.name, indices, self.definition.fold.initial[tensor])

    def _each(self, view: View, tensor: int, inner: Callable[[View], Statement], counted: bool) -> Statement:
        """The loops over the axes of a tensor beyond the common ones."""
        own = {a.name for a in self.definition.axes_of(tensor)}
        extra = [loop for loop in self.stage.loops[self.common + 1 :] if loop.axis in own]
        return self.loops(view, extra, inner, counted)

    def _step(self, view: View) -> Statement:
        """One step of the ordered axis."""
        order = sorted(range(len(self.definition.tensors)), key=self._rank, reverse=True)
        groups = [list(group) for _, group in groupby(order, key=self._rank)]
        longest = len(self.definition.axes)
        return Block(
            tuple(
                self._each(view, group[0], lambda v, g=group: self._update(v, g), self._rank(group[0]) == longest)
                for group in groups
            )
        )

    def _rank(self, tensor: int) -> int:
        axes: tuple[Axis, ...] = self.definition.axes_of(tensor)
        return len(axes)

    def _update(self, view: View, group: list[int]) -> Statement:
        """New values of tensors with the same axes: all computed before any is stored."""
        made: list[Buffer] = []
        compute: list[Statement] = []
        keep: list[Statement] = []
        for tensor in group:
            dtype = self.definition.tensors[tensor].dtype
            register = Buffer(self.names.fresh("next"), dtype, (), Scope.REGISTER, padded=True)
            buffer, indices = self.body.place(self.stage, tensor, view)
            made.append(register)
            compute.append(Store(register.name, (), self.body.at(self.stage, self.values[tensor], view)))
            keep.append(Store(buffer.name, indices, Read(register.name, (), dtype)))
        statement: Statement = Block((*compute, *keep))
        for register in made:
            statement = Allocate(register, statement)
        return statement


def _without_locals(definition: Stage) -> tuple[Expr, ...]:
    """The bodies with named values written out."""
    assert definition.fold is not None
    known: dict[str, Expr] = {}

    def expand(node: Expr) -> Expr | None:
        return known[node.name] if isinstance(node, Local) else None

    for name, expr in definition.fold.locals:
        known[name] = rewrite(expr, expand)
    return tuple(rewrite(body, expand) for body in definition.bodies)
