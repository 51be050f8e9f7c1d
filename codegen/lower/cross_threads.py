"""Reductions across threads: what each thread has summed up is combined by shuffles inside of a warp, then in shared memory.

All threads of the group know the result. If all bound loops of a stage reduce, the group is the whole team: threads to spare
hold the identity. Else the threads that differ in the trips of the reducing loops alone are a group.
"""

from __future__ import annotations

from ...schedules.loops import Loop, LoopTree
from ...schedules.steps.checks import wrong
from ...tensor.dtype import boolean
from ...tensor.expr import Const, Expr, Op, Read
from ..ir.index import floor_div, less, minus, modulo, number, plus, times
from ..ir.loop_ir import (
    THREAD_INDEX,
    Allocate,
    Block,
    Buffer,
    For,
    If,
    LoopKind,
    Scope,
    Shuffle,
    Statement,
    Store,
    Update,
)
from .thread_groups import BoundLoop
from .threads import BoundLoops
from .view import Names, View


class CrossThreads:
    """Combines the scalar register `total` of the threads of a group. `parts`: how many elements in shared memory the plan has
    for that, 0 where shuffles are enough."""

    def __init__(
        self, names: Names, threads: BoundLoops, total: Buffer, combiner: str, zero: Const, parts: int
    ) -> None:
        self.names = names
        self.threads = threads
        self.warp = threads.warp
        self.total = total
        self.combiner = combiner
        self.zero = zero
        self.parts = parts

    def combine(self, view: View, crossing: list[Loop], then: Statement) -> Statement:
        """The combination, then a statement that uses the total."""
        names = {loop.name for loop in crossing}
        return self._whole(then) if self._all(names) else self._partly(view, names, then)

    def check(self, tree: LoopTree, view: View, crossing: list[Loop]) -> None:
        """ScheduleError where the threads that are to be combined do not come together, or have several trips of points."""
        names = {loop.name for loop in crossing}
        of_warp = self.threads.team.index is not THREAD_INDEX
        apart = view.diverges == "thread" or (self.parts > 0 and (bool(view.diverges) or of_warp))
        in_turns = any(group.strides and group.names() - names for group in self.threads.groups_of(crossing))
        if apart or in_turns:
            raise wrong(
                tree, crossing[0].name, f"the threads of {crossing[0].name} cannot be combined: "
                + ("they have several points in turns" if in_turns else "they do not come together"),
                expected="reductions over whole teams of threads, or over powers of two of lanes, and a thread for each point",
            )  # fmt: skip

    def _all(self, crossing: set[str]) -> bool:
        """Says whether no bound loop divides points over the threads."""
        pieces = [piece for group in self.threads.groups for piece in group.pieces]
        return all(piece.loop.name in crossing or piece.extent == 1 for piece in pieces)

    def _shuffled(self, crossing: set[str]) -> list[BoundLoop]:
        """The reducing loops that xor of lane numbers reaches: powers of two inside of a warp."""
        found = []
        for piece in self.threads.flat().pieces:
            reach = piece.divisor * piece.extent
            if piece.loop.name in crossing and not reach & (reach - 1) and reach <= self.warp:
                found.append(piece)
        return found

    def _rest(self, crossing: set[str]) -> list[BoundLoop]:
        done = self._shuffled(crossing)
        return [p for p in self.threads.flat().pieces if p.loop.name in crossing and p not in done]

    def _value(self) -> Read:
        return Read(self.total.name, (), self.total.dtype)

    def _exchange(self, width: int, divisor: int = 1) -> Statement:
        """A butterfly of shuffles among `width` threads that are `divisor` apart."""
        other = Buffer(self.names.fresh("other"), self.total.dtype, (), Scope.REGISTER, padded=True)
        steps: list[Statement] = []
        mask = width // 2
        while mask:
            steps.append(Shuffle(other.name, self.total.name, mask * divisor))
            steps.append(Update(self.total.name, (), self.combiner, Read(other.name, (), other.dtype)))
            mask //= 2
        return Allocate(other, Block(tuple(steps)))

    def _whole(self, then: Statement) -> Statement:
        """The total of all threads of the team."""
        index, warps = self.threads.team.index, self.threads.team.size // self.warp
        bounds = self.names.bounds
        first = self._exchange(self.warp)
        if not self.parts:
            return Block((first, then))
        parts = Buffer(self.names.fresh("partial"), self.total.dtype, (self.parts,), Scope.SHARED)
        lane, warp = modulo(index, self.warp, bounds), floor_div(index, self.warp, bounds)
        width = 1 << (warps - 1).bit_length()
        place = modulo(lane, width, bounds)
        part: Expr = Read(parts.name, (place,), parts.dtype)
        if width != warps:
            part = Op("select", (less(place, number(warps)), part, self.zero), parts.dtype)
        leads = Op("eq", (lane, number(0)), boolean)
        steps = (
            first,
            If(leads, Store(parts.name, (warp,), self._value())),
            Store(self.total.name, (), part),
            self._exchange(width),
            then,
        )
        return Allocate(parts, Block(steps))

    def _partly(self, view: View, crossing: set[str], then: Statement) -> Statement:
        """The totals of groups of threads."""
        group = self.threads.flat()
        steps: list[Statement] = [self._exchange(p.extent, p.divisor) for p in self._shuffled(crossing) if p.extent > 1]
        rest = [piece for piece in self._rest(crossing) if piece.extent > 1]
        if not self.parts:
            return Block((*steps, then))
        parts = Buffer(self.names.fresh("partial"), self.total.dtype, (self.parts,), Scope.SHARED)
        base: Expr = group.index
        for piece in rest:
            base = minus(base, times(self.threads.trip(view, piece.loop), piece.divisor))
        variables = [self.names.variable("part", piece.extent) for piece in rest]
        place = base
        for variable, piece in zip(variables, rest, strict=True):
            place = plus(place, times(variable, piece.divisor))
        gather: Statement = Update(self.total.name, (), self.combiner, Read(parts.name, (place,), parts.dtype))
        for variable, piece in zip(reversed(variables), reversed(rest), strict=True):
            kind = LoopKind.UNROLL if piece.extent <= self.warp else LoopKind.SERIAL
            gather = For(variable.name, number(piece.extent), gather, kind)
        store = Store(parts.name, (group.index,), self._value())
        steps += [store, Store(self.total.name, (), self.zero), gather, then]
        return Allocate(parts, Block(tuple(steps)))
