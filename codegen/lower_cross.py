"""Reductions across threads: what each thread has summed up is combined by shuffles inside of a warp, then in shared memory.

All threads of the group know the result. If all bound loops of a stage reduce, the group is the whole team: threads to spare
hold the identity. Else the threads that differ in the trips of the reducing loops alone are a group.
"""

from __future__ import annotations

from math import prod

from ..schedules.loops import Loop
from ..tensor.dtype import boolean
from ..tensor.expr import Const, Expr, Op, Read
from .index import floor_div, less, minus, modulo, number, plus, times
from .loop_ir import Allocate, Block, Buffer, For, If, LoopKind, Scope, Shuffle, Statement, Store, Update
from .lower_threads import BoundLoops
from .teams import WARP
from .view import Names, View


class CrossThreads:
    """Combines the scalar register `total` of the threads of a group."""

    def __init__(self, names: Names, threads: BoundLoops, total: Buffer, combiner: str, zero: Const) -> None:
        self.names = names
        self.threads = threads
        self.total = total
        self.combiner = combiner
        self.zero = zero

    def combine(self, view: View, crossing: list[Loop], then: Statement) -> Statement:
        """The combination, then a statement that uses the total."""
        names = {loop.name for loop in crossing}
        pieces = [piece for group in self.threads.groups for piece in group.pieces]
        if all(piece.loop.name in names for piece in pieces):
            return self._whole(then)
        return self._partly(view, names, then)

    def _value(self) -> Read:
        return Read(self.total.name, (), self.total.dtype)

    def _exchange(self, width: int) -> Statement:
        """Shuffles among `width` neighbours."""
        other = Buffer(self.names.fresh("other"), self.total.dtype, (), Scope.REGISTER, padded=True)
        steps: list[Statement] = []
        mask = width // 2
        while mask:
            steps.append(Shuffle(other.name, self.total.name, mask))
            steps.append(Update(self.total.name, (), self.combiner, Read(other.name, (), other.dtype)))
            mask //= 2
        return Allocate(other, Block(tuple(steps)))

    def _whole(self, then: Statement) -> Statement:
        """The total of all threads of the team."""
        index, warps = self.threads.team.index, self.threads.team.size // WARP
        bounds = self.names.bounds
        first = self._exchange(WARP)
        if warps <= 1:
            return Block((first, then))
        parts = Buffer(self.names.fresh("partial"), self.total.dtype, (warps,), Scope.SHARED)
        lane, warp = modulo(index, WARP, bounds), floor_div(index, WARP, bounds)
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
        leading = 1
        for piece in group.pieces:
            if piece.loop.name not in crossing:
                break
            leading *= piece.extent
        width = min(leading & -leading, WARP)
        steps: list[Statement] = [self._exchange(width)] if width > 1 else []
        outer = [(leading // width, width)]
        outer += [(p.extent, p.divisor) for p in group.pieces if p.loop.name in crossing and p.divisor >= leading]
        if prod(extent for extent, _ in outer) == 1:
            return Block((*steps, then))
        bounds = self.names.bounds
        size = (group.size + group.items) // width + 1
        parts = Buffer(self.names.fresh("partial"), self.total.dtype, (size,), Scope.SHARED)
        base = group.index
        for piece in group.pieces:
            if piece.loop.name in crossing:
                base = minus(base, times(self.threads.trip(view, piece.loop), piece.divisor))
        store: Statement = Store(parts.name, (floor_div(group.index, width, bounds),), self._value())
        if width > 1:
            store = If(Op("eq", (modulo(group.index, width, bounds), number(0)), boolean), store)
        variables = [self.names.variable("part", extent) for extent, _ in outer]
        place: Expr = base
        for variable, (_, step) in zip(variables, outer, strict=True):
            place = plus(place, times(variable, step))
        value = Read(parts.name, (floor_div(place, width, bounds),), parts.dtype)
        gather: Statement = Update(self.total.name, (), self.combiner, value)
        for variable, (extent, _) in zip(reversed(variables), reversed(outer), strict=True):
            kind = LoopKind.UNROLL if extent <= WARP else LoopKind.SERIAL
            gather = For(variable.name, number(extent), gather, kind)
        steps += [store, Store(self.total.name, (), self.zero), gather, then]
        return Allocate(parts, Block(tuple(steps)))
