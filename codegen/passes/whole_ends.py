"""Where there are no masks in hardware, the last tile of an axis begins earlier instead of ending late.

    for p < n { let size = min(32, extent - 32 p); if 31 < size: whole(32 p) else: masked(32 p, size) }
    ->  for p < n { let size = min(32, extent - 32 p); if 31 < size: whole(32 p) else: whole(extent - 32) }

It computes some points once more, and they come out the same: a tile may do so if no trip reads what another one writes. A
masked access of a processor without masks is an access for each lane behind a branch: of a vector of 32 bytes, more than 32
whole ones. Threads may write the same values to the same place. Where a tile is `whole` only if something else holds too, as
inside of borders, the guarded tiles keep what they ask and begin earlier by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import lcm

from ...tensor.dtype import i64
from ...tensor.expr import Const, Expr, Op, Read, Var, children, variables, walk, with_children
from ...tensor.indices.affine import Affine, affine, interval, to_expr
from ...tensor.indices.bounds import conjuncts
from ..ir.facts import expressions
from ..ir.index import Bounds, known, number, plus, smaller
from ..ir.loop_ir import (
    Allocate,
    Block,
    For,
    If,
    Let,
    LoopProgram,
    Prefetch,
    Statement,
    Store,
    Update,
    statements,
    with_substatements,
)

_SIMPLE = (Allocate, Block, For, If, Let, Prefetch, Store, Update)


def whole_ends(program: LoopProgram, divisors: Mapping[str, int] | None = None) -> LoopProgram:
    """An equal program. `divisors`: of each tensor, a common multiple of all that indices are divided by where it is computed.
    What was a multiple of it stays one, as quotients and remainders may have been worked out from that."""
    divisors = divisors or {}
    return replace(
        program,
        nests=tuple(
            replace(nest, body=_Ends(Surroundings({}, {}, {}), divisors).statement(nest.body)) for nest in program.nests
        ),
    )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Holds what is known at a place: ranges of variables, values of names, loops around, and what they have allocated."""

    bounds: Bounds
    lets: dict[str, Expr]
    loops: dict[str, For]
    held: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _End:
    """A loop over tiles of an axis: its variable, the name of the size of a tile, the points of a whole one and of the axis."""

    loop: str
    size: str
    tile: int
    extent: Affine


class _Ends:
    """Rewrites the statements at one place."""

    def __init__(self, around: Surroundings, divisors: Mapping[str, int]) -> None:
        self.around = around
        self.divisors = divisors

    def statement(self, node: Statement) -> Statement:
        """The statement with its ends made whole."""
        around = self.around
        match node:
            case For(var=var, extent=extent):
                _, high = interval(extent, around.bounds)
                bounds = {**around.bounds, var: (0, max(high - 1, 0))}
                inside = replace(around, bounds=bounds, loops={**around.loops, var: node})
                return replace(node, body=_Ends(inside, self.divisors).statement(node.body))
            case Let(var=var, value=value):
                bounds = {**around.bounds, var: interval(value, around.bounds)}
                inside = replace(around, bounds=bounds, lets={**around.lets, var: value})
                return replace(node, body=_Ends(inside, self.divisors).statement(node.body))
            case Allocate(buffer=buffer):
                inside = replace(around, held=around.held | {buffer.name})
                return replace(node, body=_Ends(inside, self.divisors).statement(node.body))
            case If(otherwise=otherwise) if otherwise is not None and (ends := self._ends(node)):
                return replace(node, otherwise=_begun_earlier(node.then, ends))
            case If(otherwise=otherwise) if otherwise is not None and (ends := self._some_ends(node, otherwise)):
                return replace(node, otherwise=_begun_earlier(otherwise, ends, always=True))
        return with_substatements(node, self.statement)

    def _ends(self, choice: If) -> list[_End]:
        """The ends that a choice asks for, all of them; none where the tile cannot begin earlier."""
        divisor = self._divisor(choice.then)
        found = [self._end(part, divisor) for part in conjuncts(choice.condition)]
        ends = [end for end in found if end is not None]
        if len(ends) < len(found) or not all(_moves_by_tiles(choice.then, end, _begin(end, ends)) for end in ends):
            return []
        outermost = next(loop for name, loop in self.around.loops.items() if name in {end.loop for end in ends})
        return (
            ends if _can_run_again(choice, outermost) and _moves_all(choice.then, ends, self._held(outermost)) else []
        )

    def _some_ends(self, choice: If, guarded: Statement) -> list[_End]:
        """The ends among what a choice asks, where the other tiles ask something else, as where borders are: all of those begin
        earlier then if they have to."""
        divisor = self._divisor(guarded)
        found = [self._end(part, divisor) for part in conjuncts(choice.condition)]
        ends = [end for end in found if end is not None]
        if not 0 < len(ends) < len(found) or not _masks_by(guarded, {end.size for end in ends}):
            return []
        if not all(_moves_by_tiles(guarded, end, Var(f"{end.loop}_begin")) for end in ends):
            return []
        outermost = next(loop for name, loop in self.around.loops.items() if name in {end.loop for end in ends})
        again = _can_run_again(replace(choice, then=guarded, otherwise=None), outermost, choice)
        return ends if again and _moves_all(guarded, ends, self._held(outermost)) else []

    def _held(self, loop: For) -> frozenset[str]:
        """Memory that is there before the loop begins, and is of use to what this nest does alone."""
        inside = {s.buffer.name for s in statements(loop.body) if isinstance(s, Allocate)}
        return self.around.held - inside

    def _divisor(self, body: Statement) -> int:
        """A common multiple of what indices are divided by where a body computes what outlives it."""
        own = {s.buffer.name for s in statements(body) if isinstance(s, Allocate)}
        written = _written(list(statements(body))) - own
        return lcm(*(self.divisors[name] for name in (written if written <= self.divisors.keys() else self.divisors)))

    def _end(self, condition: Expr, divisor: int) -> _End | None:
        """The end that `tile - 1 < size` asks about, where size is the lesser of `tile` and what is left of the axis."""
        match condition:
            case Op(name="lt", args=(Const(value=last), Var(name=size))):
                pass
            case _:
                return None
        match self.around.lets.get(size):
            case Op(name="min", args=(Const(value=tile), left)) if tile == last + 1:
                pass
            case _:
                return None
        form = affine(left)
        tiles = [name for name in self.around.loops if form.coefficient(Var(name)) == -tile]
        if len(tiles) != 1:
            return None
        extent = form.plus(affine(Var(tiles[0])), int(tile))
        begin = extent.plus(Affine((), -int(tile)))
        if any(number % divisor for number in (begin.constant, *(times for _, times in begin.terms))):
            return None
        if tiles[0] in variables(to_expr(extent)) or interval(to_expr(extent), self.around.bounds)[0] < tile:
            return None
        return _End(tiles[0], size, int(tile), extent)


def _can_run_again(choice: If, loop: For, whole: If | None = None) -> bool:
    """Tells whether tiles of this loop may run twice: none reads what some trip writes, and what is made for a trip alone is of
    no use outside of the choice, or of the `whole` one of which it is an arm."""
    own = list(statements(choice.then))
    if not all(isinstance(s, _SIMPLE) for s in own):
        return False
    chosen = {id(s) for s in statements(whole or choice)}
    others = [s for s in statements(loop.body) if id(s) not in chosen]
    inside = {s.buffer.name for s in own if isinstance(s, Allocate)}
    of_a_trip = {s.buffer.name for s in others if isinstance(s, Allocate)}
    read, written, elsewhere = _read(own), _written(own), _written(others)
    alone = of_a_trip.isdisjoint((read | written) & (_read(others) | elsewhere))
    return alone and read.isdisjoint(elsewhere) and (read & written) <= inside | of_a_trip


def _read(some: Sequence[Statement]) -> set[str]:
    found = {e.tensor for s in some for root in expressions(s) for e in walk(root) if isinstance(e, Read)}
    return found | {s.buffer for s in some if isinstance(s, Update)}


def _written(some: Sequence[Statement]) -> set[str]:
    return {s.buffer for s in some if isinstance(s, (Store, Update))}


def _moves_all(body: Statement, ends: list[_End], held: AbstractSet[str]) -> bool:
    """Tells whether all that a tile does with memory that holds a part of a tensor says where the tile begins. In a ring of
    rows that may not be so: where tiles are as long as the ring, each begins at its start."""
    names = {end.loop for end in ends}
    for s in statements(body):
        stores = [(s.buffer, s.indices)] if isinstance(s, (Store, Update)) else []
        reads = [(e.tensor, e.indices) for root in expressions(s) for e in walk(root) if isinstance(e, Read)]
        for indices in [indices for buffer, indices in (*stores, *reads) if buffer in held]:
            folded = any(isinstance(e, Op) and e.name == "mod" for index in indices for e in walk(index))
            if folded or not names <= frozenset().union(*map(variables, indices)):
                return False
    return True


def _moves_by_tiles(node: Statement, end: _End, begin: Expr) -> bool:
    """Tells whether a loop's variable says in no other way than as the begin of a tile which trip it is."""
    return all(_moved(e, end, begin) is not None for s in statements(node) for e in expressions(s))


def _masks_by(body: Statement, sizes: AbstractSet[str]) -> bool:
    """Tells whether points are masked by how large a tile is, and nothing else asks for it: what fills the overhang of a tile
    with zeros has to run there."""
    masked = False
    for s in statements(body):
        valid = s.valid if isinstance(s, For) else None
        masked |= valid is not None and not sizes.isdisjoint(variables(valid))
        values = [s.value] if isinstance(s, (Store, Update)) else []
        if any(not sizes.isdisjoint(variables(value)) for value in values):
            return False
    return masked


def _begun_earlier(body: Statement, ends: list[_End], always: bool = False) -> Statement:
    """A whole tile that ends where the axes do. `always`: each tile does so that would end behind them."""
    begins: dict[str, Expr] = {}
    for end in ends:
        begin = Var(f"{end.loop}_begin") if always else _begin(end, ends)
        body = _with_begin(body, end, begin)
        if isinstance(begin, Var):
            begins[begin.name] = smaller(to_expr(affine(Var(end.loop)).times(end.tile)), _last(end))
    for name, value in begins.items():
        body = Let(name, value, body)
    return body


def _begin(end: _End, ends: list[_End]) -> Expr:
    """Says where the tile begins: where the last one does; of several axes a name, as it may be in the midst of one of them."""
    return _last(end) if len(ends) == 1 else Var(f"{end.loop}_begin")


def _last(end: _End) -> Expr:
    return to_expr(end.extent.plus(Affine((), -end.tile)))


def _with_begin(node: Statement, end: _End, begin: Expr) -> Statement:
    def moved(expr: Expr) -> Expr:
        found = _moved(expr, end, begin)
        assert found is not None
        return found

    match node:
        case For(extent=extent, valid=valid):
            real = None if valid is None else moved(valid)
            most = None if real is None else known(real)
            node = replace(
                node, extent=moved(extent), valid=None if most is not None and extent == number(most) else real
            )
        case Let(value=value):
            node = replace(node, value=moved(value))
        case If(condition=condition):
            node = replace(node, condition=moved(condition))
        case Store(indices=indices, value=value) | Update(indices=indices, value=value):
            node = replace(node, indices=tuple(map(moved, indices)), value=moved(value))
        case Prefetch(indices=indices):
            node = replace(node, indices=tuple(map(moved, indices)))
    return with_substatements(node, lambda child: _with_begin(child, end, begin))


def _moved(expr: Expr, end: _End, begin: Expr) -> Expr | None:
    """The expression for a tile that begins at `begin`; None where the trip stands in it otherwise than as a begin."""
    names = variables(expr)
    if end.loop not in names and end.size not in names:
        return expr
    if isinstance(expr, Var):
        return number(end.tile) if expr.name == end.size else None
    if expr.dtype == i64 and isinstance(expr, Op):
        form = affine(expr)
        place = _part_of(affine(begin), form.coefficient(Var(end.loop)), end.tile)
        if place is None:
            return None
        total: Expr = to_expr(place.plus(Affine((), form.constant)))
        for atom, coefficient in form.terms:
            if atom == Var(end.loop):
                continue
            inner = _of_children(atom, end, begin) if not isinstance(atom, Var) else _moved(atom, end, begin)
            if inner is None:
                return None
            total = plus(total, to_expr(affine(inner).times(coefficient)))
        return total
    return _of_children(expr, end, begin)


def _part_of(begin: Affine, times: int, tile: int) -> Affine | None:
    """Returns begin * times / tile, where that is whole."""
    parts = [(atom, divmod(number * times, tile)) for atom, number in begin.terms]
    constant, rest = divmod(begin.constant * times, tile)
    if rest or any(left for _, (_, left) in parts):
        return None
    return Affine(tuple((atom, number) for atom, (number, _) in parts), constant)


def _of_children(expr: Expr, end: _End, begin: Expr) -> Expr | None:
    inner = [_moved(child, end, begin) for child in children(expr)]
    if any(child is None for child in inner):
        return None
    return with_children(expr, tuple(child for child in inner if child is not None))
