"""Copies that read across what they write go through registers, square by square.

    for k < n { unroll r < 6 { y[k, r] = x[r, k] } }
    ->  for q < n // 4
          unroll r < 6 { vector l < 4 { t[r, l] = x[r, 4 q + l] } }
          unroll l < 4 { vector r < 4 { y[4 q + l, r] = t[r, l] }; vector r < 4 { y[4 q + l, r + 2] = t[r + 2, l] } }
        for k < n % 4 { ... as it was, from n // 4 * 4 on }

So rows are packed for a product. A square takes four loads, eight shuffles and four stores, where single elements take sixteen
loads and stores; where the rows are no multiple of four, two squares share some. The cost model still counts single elements:
with less it packs rows where reading them as they lie is faster, as it counts no reads of what a nest itself has written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...tensor.expr import Expr, Op, Read, Var, substitute, variables, walk
from ...tensor.indices.affine import affine
from ...tensor.indices.bounds import bound_of
from ..ir.index import both, floor_div, known, less, minus, number, plus, times
from ..ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    For,
    If,
    LoopKind,
    LoopProgram,
    Scope,
    Statement,
    Store,
    with_substatements,
)

SIDE = 4  # of a square: lanes of the narrowest vectors, which are shuffled whole everywhere
WIDTHS = (32, 64)  # bits of elements of which so many make one or two vectors
_IN_MEMORY = frozenset(Scope) - {Scope.REGISTER, Scope.TABLE, Scope.TILE, Scope.SHARED}


def turn_copies(program: LoopProgram) -> LoopProgram:
    """Turns squares in registers; results stay the same, bit for bit."""
    buffers = {buffer.name: buffer for buffer in (*program.arguments, *program.globals)}
    return program.with_bodies(lambda body: _turned(body, buffers))


def _turned(node: Statement, buffers: Mapping[str, Buffer]) -> Statement:
    match node:
        case Allocate(buffer=buffer, body=body):
            return replace(node, body=_turned(body, {**buffers, buffer.name: buffer}))
        case For(kind=LoopKind.SERIAL):
            found = _by_squares(node, buffers)
            if found is not None:
                return found
    return with_substatements(node, lambda part: _turned(part, buffers))


def _by_squares(loop: For, buffers: Mapping[str, Buffer]) -> Statement | None:
    """A loop over a copy that reads across what it writes, by squares; None for any other loop."""
    match loop.body:
        case If(condition=condition, then=then, otherwise=otherwise) if _stays(condition, loop.var):
            first = _by_squares(replace(loop, body=then), buffers)
            if first is None:
                return None
            return If(condition, first, None if otherwise is None else replace(loop, body=otherwise))
        case For(kind=LoopKind.UNROLL, body=Store() as store) as rows:
            copy = _crossing(loop, rows, store, buffers)
            return None if copy is None else copy.by_squares()
    return None


def _stays(condition: Expr, var: str) -> bool:
    """Says whether a condition is the same in all trips of a loop."""
    return var not in variables(condition) and not any(isinstance(part, Read) for part in walk(condition))


@dataclass(frozen=True, slots=True)
class _Crossing:
    """A copy that stores `rows` elements side by side in each trip of a loop, of which each reads what lies side by side from
    trip to trip. `whole`: the condition under which all rows are there and read; None where they always are."""

    loop: For
    rows: For
    store: Store
    read: Read
    count: int
    held: Buffer
    whole: Expr | None

    def by_squares(self) -> Statement | None:
        """The loop by squares, and the rest of its trips as they were."""
        squares = floor_div(self.loop.extent, SIDE, {})
        if known(squares) == 0:
            return None
        done = times(squares, SIDE)
        rest = minus(self.loop.extent, done)
        middle = For(f"{self.loop.var}_square", squares, Allocate(self.held, Block((self._loads(), self._stores()))))
        parts: tuple[Statement, ...] = (middle,)
        if known(rest) != 0:
            parts = (middle, replace(self.loop, extent=rest, unroll=1, body=self._moved(done)))
        turned = Block(parts) if len(parts) > 1 else middle
        return turned if self.whole is None else If(self.whole, turned, self.loop)

    def _place(self, lane: Expr) -> Expr:
        """Returns the trip that a lane of a square stands for."""
        return plus(times(Var(f"{self.loop.var}_square"), SIDE), lane)

    def _loads(self) -> Statement:
        """Fills the registers with rows as they lie."""
        lane = f"{self.loop.var}_lane"
        indices = tuple(substitute(index, {self.loop.var: self._place(Var(lane))}) for index in self.read.indices)
        load = Store(self.held.name, (Var(self.rows.var), Var(lane)), replace(self.read, indices=indices))
        return replace(self.rows, valid=None, body=For(lane, number(SIDE), load, LoopKind.VECTOR))

    def _stores(self) -> Statement:
        """Stores what the registers hold across the rows."""
        trip, lane = f"{self.loop.var}_trip", f"{self.rows.var}_lane"
        stores = []
        for first in _begins(self.count):
            row = plus(Var(lane), number(first))
            places = {self.loop.var: self._place(Var(trip)), self.rows.var: row}
            indices = tuple(substitute(index, places) for index in self.store.indices)
            store = replace(self.store, indices=indices, value=Read(self.held.name, (row, Var(trip)), self.read.dtype))
            stores.append(For(lane, number(SIDE), store, LoopKind.VECTOR))
        return For(trip, number(SIDE), Block(tuple(stores)), LoopKind.UNROLL)

    def _moved(self, begin: Expr) -> Statement:
        """The body of the loop, some trips further on."""
        further = {self.loop.var: plus(Var(self.loop.var), begin)}
        indices = tuple(substitute(index, further) for index in self.store.indices)
        store = replace(self.store, indices=indices, value=substitute(self.store.value, further))
        return replace(self.rows, body=store)


def _begins(count: int) -> list[int]:
    """Returns the rows at which squares begin that cover so many."""
    return [*range(0, count - SIDE, SIDE), count - SIDE]


def _crossing(loop: For, rows: For, store: Store, buffers: Mapping[str, Buffer]) -> _Crossing | None:
    """Finds what is copied across; None if it is anything else."""
    count, written = known(rows.extent) or 0, buffers.get(store.buffer)
    read, whole = _read(store.value, rows, count)
    source = None if read is None else buffers.get(read.tensor)
    if count < SIDE or read is None or source is None or written is None or not _is_plain(store, source, written):
        return None
    conditions = [e for e in (rows.valid, whole) if e is not None]
    if not all(_stays(condition, loop.var) for condition in conditions):
        return None
    down, across = _step(source, read.indices, loop.var), _step(written, store.indices, rows.var)
    apart = _step(written, store.indices, loop.var)
    if down != 1 or across != 1 or apart is None or apart < count:
        return None
    there = None if rows.valid is None else less(number(count - 1), rows.valid)
    held = Buffer(f"{store.buffer}_rows", written.dtype, (count, SIDE), Scope.REGISTER)
    return _Crossing(loop, rows, store, read, count, held, both(there, whole))


def _is_plain(store: Store, source: Buffer, written: Buffer) -> bool:
    """Says whether elements move from memory to other memory as they are."""
    if (
        source is written
        or not {source.scope, written.scope} <= _IN_MEMORY
        or store.streaming
        or store.later
        or store.ahead
    ):
        return False
    return source.dtype == written.dtype and written.dtype.bits in WIDTHS


def _read(value: Expr, rows: For, count: int) -> tuple[Read | None, Expr | None]:
    """Finds what is copied, and the condition under which it is for all rows: what grows with the row holds if it does for the
    last one."""
    match value:
        case Read():
            return value, None
        case Op(name="select", args=(condition, Read() as read, _)):
            bound = bound_of(condition)
            if bound is not None and bound.coefficient(Var(rows.var)) >= 0:
                return read, substitute(condition, {rows.var: number(count - 1)})
    return None, None


def _step(buffer: Buffer, indices: Sequence[Expr], var: str) -> int | None:
    """Elements from one value of a variable to the next; None where it occurs in anything but sums."""
    total, size = 0, 1
    for index, extent in zip(reversed(indices), reversed(buffer.shape), strict=True):
        form = affine(index)
        if any(not isinstance(atom, Var) and var in variables(atom) for atom, _ in form):
            return None
        total += size * form.coefficient(Var(var))
        size *= extent
    return total
