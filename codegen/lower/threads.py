"""Loops that are bound to blocks, warps and threads of a GPU: no loops in the code, but the trip that a thread runs.

    thread i: 8     ->    let i = thread_index // 4 % 8

More items than threads: a loop over groups of items. Fewer: the threads to spare repeat the last trip and store nothing
(`View.only`), or, around a stage of its own, jump over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...schedules.loops import Loop, LoopKind, StageLoops
from ...schedules.plan.threads import BOUND
from ...targets.backend import Multiprocessor
from ...tensor.dtype import boolean
from ...tensor.expr import Expr, Op, Var, variables
from ..ir.index import both, floor_div, known, less, modulo, number, plus, smaller, times
from ..ir.loop_ir import BLOCK_INDEX, For, If, Let, Statement
from .thread_groups import BoundLoop, Group, blocks, groups
from .view import ALONE, Inner, Names, Team, View, fixed

UNROLLED = 8  # trips over groups of items that are written out


class BoundLoops:
    """The bound loops of one stage that a team runs. On a CPU there are none."""

    def __init__(self, names: Names, stage: StageLoops, team: Team, gpu: Multiprocessor | None) -> None:
        self.names = names
        self.stage = stage
        self.team = team
        self.warp = gpu.warp if gpu is not None else 1
        self.groups = groups(stage, team, names.bounds, self.warp)
        self._of: dict[str, tuple[Group, BoundLoop]] = {
            piece.loop.name: (group, piece)
            for group in ((*self.groups, blocks(stage, BLOCK_INDEX)) if gpu else ())
            for piece in group.pieces
        }

    def binds(self, loop: Loop) -> bool:
        """Says whether a loop runs in threads or blocks, not one trip after the other."""
        return loop.name in self._of and (loop.kind not in BOUND or self.team.size > 1)

    def strides(self, view: View, loop: Loop) -> bool:
        """Says whether this is where the loop over groups of items opens: there are more than threads."""
        if not self.binds(loop):
            return False
        group, _ = self._of[loop.name]
        return group.strides and self._key(group) not in view.variables

    def _key(self, group: Group) -> str:
        return f"{self.stage.stage} item {group.pieces[0].loop.name}"

    def strided(self, view: View, loop: Loop, inner: Inner) -> Statement:
        """The loop over groups of items; `inner` is what one item does."""
        group, _ = self._of[loop.name]
        count = -(-group.items // group.size)
        trip = self.names.variable("trip", count)
        item = self.names.variable("item", group.items)
        ragged = group.items % group.size
        view = view.opening(self._key(group), item)
        body = inner(replace(view, diverges=_diverged(view, loop)) if ragged else view)
        if ragged:
            body = If(less(item, number(group.items)), body)
        body = Let(item.name, plus(times(trip, group.size), group.index), body)
        kind = LoopKind.UNROLL if count <= UNROLLED else LoopKind.SERIAL
        return For(trip.name, number(count), body, kind, label="")

    def trip(self, view: View, loop: Loop) -> Expr:
        """Says which trip of the loop this thread runs; of a thread to spare, one beyond the last."""
        group, piece = self._of[loop.name]
        trip = floor_div(view.variables.get(self._key(group), group.index), piece.divisor, self.names.bounds)
        if piece is group.pieces[-1]:
            return trip
        return modulo(trip, piece.extent, self.names.bounds)

    def _spares(self, loop: Loop) -> bool:
        """Says whether there are threads to spare, which this loop has no trip for."""
        group, piece = self._of[loop.name]
        return group.items < group.size and piece is group.pieces[-1]

    def inside(self, view: View, loop: Loop) -> View:
        """Returns the view inside: what is attached inside of a thread's trip it runs alone; what is attached inside of a
        warp's, the warp runs."""
        if not self.binds(loop) or loop.kind not in BOUND:
            return view
        if loop.kind is LoopKind.THREAD:
            return replace(view, team=ALONE)
        return replace(view, team=Team(self.warp, modulo(self.team.index, self.warp, self.names.bounds)))

    def without_spare(self, view: View, loop: Loop) -> View:
        """Threads to spare add nothing to a reduction."""
        if not self.binds(loop):
            return view
        return replace(view, lanes=both(view.lanes, self._one_for_each_item()))

    def diverging(self, view: View, loop: Loop, extent: Expr) -> View:
        """Returns what stands in the branch that a clamped loop of this extent is, if there are threads that do not take it."""
        if self.binds(loop) and loop.kind in BOUND:
            return replace(view, diverges=_diverged(view, loop)) if self._branches(loop, extent) else view
        apart = self._apart(extent)
        return replace(view, diverges=apart) if apart and view.diverges != "thread" else view

    def _apart(self, expr: Expr) -> str:
        """Says how threads disagree on a value, as in `View.diverges`."""
        found = {self.names.apart[name] for name in variables(expr) if name in self.names.apart}
        return "thread" if "thread" in found else "warp" if found else ""

    def sized(self, size: Var, loop: Loop, left: Expr) -> None:
        """Notes on what threads disagree: how much is left of an axis for the trip that each runs."""
        own = ("thread" if loop.kind is LoopKind.THREAD else "warp") if self.binds(loop) and loop.kind in BOUND else ""
        apart = self._apart(left)
        if own or apart:
            self.names.apart[size.name] = "thread" if "thread" in (own, apart) else "warp"

    def _branches(self, loop: Loop, extent: Expr) -> bool:
        return known(extent) != fixed(loop.extent) or self._spares(loop)

    def branch(self, view: View, loop: Loop, variable: Var, extent: Expr, body: Statement) -> Statement:
        """A clamped loop: threads and blocks without a trip jump over it."""
        if self._branches(loop, extent):
            body = If(less(variable, extent), body)
        return Let(variable.name, self.trip(view, loop), body)

    def trips(
        self, view: View, loop: Loop, variable: Var, body: Statement, valid: Expr | None, label: str
    ) -> Statement:
        """Runs the body for all trips of a full loop: the one that this thread has of a bound loop, or a loop in the code."""
        extent = fixed(loop.extent)
        if not self.binds(loop):
            kind = LoopKind.UNROLL if loop.kind in BOUND else loop.kind  # one thread has the registers of them all
            return For(variable.name, number(extent), body, kind, valid=valid, label=label)
        trip = self.trip(view, loop)
        if self._spares(loop):
            trip = smaller(trip, number(extent - 1))
        return For(variable.name, number(extent), body, LoopKind.THREAD, valid=valid, index=trip, label=label)

    def only(self, view: View) -> Expr | None:
        """Says which threads store: one for each item."""
        if self.team.size == 1:
            return view.only
        return self._one_for_each_item()

    def _one_for_each_item(self) -> Expr | None:
        """The condition that a thread is none to spare."""
        condition: Expr | None = None
        for group in self.groups:
            if not group.pieces:
                condition = both(condition, Op("eq", (group.index, number(0)), boolean))
            elif group.items < group.size:
                condition = both(condition, less(group.index, number(group.items)))
        return condition

    def leads(self, view: View, loops: list[Loop]) -> Expr | None:
        """The condition that this thread runs the first trip of each of some loops."""
        condition: Expr | None = None
        for loop in loops:
            condition = both(condition, Op("eq", (self.trip(view, loop), number(0)), boolean))
        return condition

    def groups_of(self, loops: Iterable[Loop]) -> list[Group]:
        """The groups that bound loops belong to."""
        names = {loop.name for loop in loops}
        return [group for group in self.groups if names & group.names()]

    def flat(self) -> Group:
        """All bound loops in one index over the team: where there are lanes and warps, these count in steps of all lanes."""
        first, *more = self.groups
        if not more:
            return first
        warps = tuple(BoundLoop(p.loop, p.divisor * self.warp, p.extent) for group in more for p in group.pieces)
        return Group(self.team.index, self.team.size, (*first.pieces, *warps))


def _diverged(view: View, loop: Loop) -> str:
    return "thread" if loop.kind is LoopKind.THREAD else view.diverges or "warp"
