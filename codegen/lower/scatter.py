"""Reductions at computed places as loop IR (tensor/indices/scatter.py says what they are).

    loops outside of the reduction       (pieces of scattered axes among them: each trip then has a part of the places)
      storage = identity                 for all points that the loops inside cover
      reduction loops, other loops       no loop over a scattered axis
        if the term counts, and its place lies among the points: storage[place] = combiner(storage[place], value)

Terms of one place are combined in the order of the loops, whatever the number of threads.
"""

from __future__ import annotations

from dataclasses import replace

from ...schedules.loops import StageLoops
from ...tensor.dtype import boolean
from ...tensor.expr import Expr, Op
from ...tensor.identity import identity
from ..ir.index import both, inside, known, less, plus, settled
from ..ir.index import number as literal
from ..ir.loop_ir import Block, If, Let, Statement, Store, Update
from .body import stored
from .loops import Around, LoopLowering
from .view import ALONE, AxisRange, Team, View


class ScatterLowering(LoopLowering):
    """The loops of a reduction at computed places, and what each term does."""

    def __init__(self, nest: Around, stage: StageLoops, team: Team = ALONE) -> None:
        super().__init__(nest, stage, team)
        assert self.planned.scattered is not None
        self.scattered = self.planned.scattered
        self.combiner = self.definition.combiner or ""
        self.zero = identity(self.combiner, self.definition.tensors[0].dtype)

    def statement(self, view: View) -> Statement:
        """All loops and what they do."""
        return self._descend(replace(view, edge=True, tail=True), 0)

    def _descend(self, view: View, depth: int) -> Statement:
        if depth != self.first_reduction:
            return self._loop(view, depth)
        covered = [x for x, reduces in zip(self.loops[depth:], self.reduces[depth:], strict=True) if not reduces]
        return Block((self.alone(view, covered, self._set_identity), self._loop(view, depth)))

    def _loop(self, view: View, depth: int) -> Statement:
        while depth < len(self.loops) and self.loops[depth].name in self.planned.aside:
            depth += 1
        if depth == len(self.loops):
            return self._term(view)
        return self.loop(view, depth, self._descend)

    def _set_identity(self, view: View) -> Statement:
        buffer, indices = self.nest.body.place(self.stage, 0, view)
        return stored(buffer, view, Store(buffer.name, indices, self.zero))

    # ---- one term ----

    def _term(self, view: View) -> Statement:
        body = self.nest.body
        conditions = [self._is_a_point(view), *(body.at(self.stage, guard, view) for guard in self.scattered.guards)]
        at, places, met = view, [], None
        for axis, place in self.scattered.places.items():
            size = self.definition.axis(axis).extent
            where = body.at(self.stage, place, view)
            variable = self.names.variable(f"{axis}.place", size)
            places.append((variable.name, where))
            met = both(met, self._among(view, axis, where, variable))
            at = at.moved(self.stage.stage, axis, AxisRange(variable, literal(1)))
        buffer, indices = body.place(self.stage, 0, at)
        value = body.at(self.stage, self.scattered.value, view)
        statement = stored(buffer, at, Update(buffer.name, indices, self.combiner, value))
        statement = statement if met is None else If(met, statement)
        for name, where in reversed(places):
            statement = Let(name, where, statement)
        for condition in reversed(conditions):
            statement = statement if condition is None else If(condition, statement)
        return statement

    def _is_a_point(self, view: View) -> Expr | None:
        """The condition for this trip to be one of the stage's points; None where all are."""
        found = view.lanes
        for axis in self.definition.axes:
            if axis.name in self.nest.body.leaving(self.stage) and axis.name not in self.scattered.places:
                position = view.places[self.stage.stage, axis.name].position
                found = both(found, inside(position, axis.extent, self.names.bounds))
        return found

    def _among(self, view: View, axis: str, where: Expr, variable: Expr) -> Expr | None:
        """The condition for a place to be among the points that are run here; None where it is for sure.

        where: the place itself, whose range is known. variable: what it is called.
        """
        box, extent = view.places[self.stage.stage, axis], self.definition.axis(axis).extent
        there = inside(where, extent, self.names.bounds)
        found = None if there is None else inside(variable, extent, {})
        first, size = (plus(settled(part, self.names.bounds), literal(0)) for part in (box.position, box.size))
        if known(first) == 0 and known(size) == extent:
            return found
        return both(found, both(Op("ge", (variable, first), boolean), less(variable, plus(first, size))))
