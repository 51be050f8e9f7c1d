"""A tile of an axis that begins elsewhere: what it takes, and the statements of one that does (whole_ends.py, whole_tiles.py).

A tile may run twice, or begin earlier than its trip says, if no trip reads what another one writes, and if its loop's variable
says in no other way than as the begin of a tile which trip it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from math import lcm

from ...tensor.dtype import i64
from ...tensor.expr import Expr, Op, Read, Var, children, variables, walk, with_children
from ...tensor.indices.affine import Affine, affine, interval, to_expr
from ..ir.facts import expressions
from ..ir.index import Bounds, number, plus
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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Holds what is known at a place: ranges of variables, values of names, loops around, and what they have allocated."""

    bounds: Bounds = field(default_factory=dict)
    lets: Mapping[str, Expr] = field(default_factory=dict)
    loops: Mapping[str, For] = field(default_factory=dict)
    held: frozenset[str] = frozenset()

    def inside(self, node: For | Let | Allocate) -> Surroundings:
        """Returns what is known in the body of a statement."""
        match node:
            case For(var=var, extent=extent):
                _, high = interval(extent, self.bounds)
                bounds = {**self.bounds, var: (0, max(high - 1, 0))}
                return replace(self, bounds=bounds, loops={**self.loops, var: node})
            case Let(var=var, value=value):
                bounds = {**self.bounds, var: interval(value, self.bounds)}
                return replace(self, bounds=bounds, lets={**self.lets, var: value})
            case Allocate(buffer=buffer):
                return replace(self, held=self.held | {buffer.name})

    def held_at(self, loop: For) -> frozenset[str]:
        """Memory that is there before the loop begins, and is of use to what this nest does alone."""
        inside = {s.buffer.name for s in statements(loop.body) if isinstance(s, Allocate)}
        return self.held - inside


@dataclass(frozen=True, slots=True)
class TileAxis:
    """A loop over tiles of an axis: its variable, the name of the size of a tile, the points of a whole one and of the axis."""

    loop: str
    size: str
    tile: int
    extent: Affine

    @property
    def last(self) -> Expr:
        """The begin of a whole tile that ends where the axis does."""
        return to_expr(self.extent.plus(Affine((), -self.tile)))


def with_nests(program: LoopProgram, rewrite: Callable[[Statement], Statement]) -> LoopProgram:
    """The program with the bodies of its nests rewritten, those that prepare constants left alone: they run once."""
    return replace(program, nests=tuple(replace(nest, body=rewrite(nest.body)) for nest in program.nests))


def divisor_of(body: Statement, divisors: Mapping[str, int]) -> int:
    """Returns a common multiple of what indices are divided by where a body computes what outlives it. `divisors`: of each
    tensor, one of all that they are divided by where it is computed."""
    own = {s.buffer.name for s in statements(body) if isinstance(s, Allocate)}
    written = _written(list(statements(body))) - own
    return lcm(*(divisors[name] for name in (written if written <= divisors.keys() else divisors)))


def _written(some: Sequence[Statement]) -> set[str]:
    return {s.buffer for s in some if isinstance(s, (Store, Update))}


def can_run_again(body: Statement, chosen: Statement, loop: For) -> bool:
    """Tells whether what tiles of this loop do in `body` may be done twice: none reads what some trip writes, and what is made
    for a trip alone is of no use outside of `chosen`, which the body is a part of."""
    own = list(statements(body))
    if not all(isinstance(s, _SIMPLE) for s in own):
        return False
    all_chosen = {id(s) for s in statements(chosen)}
    others = [s for s in statements(loop.body) if id(s) not in all_chosen]
    inside = {s.buffer.name for s in own if isinstance(s, Allocate)}
    of_a_trip = {s.buffer.name for s in others if isinstance(s, Allocate)}
    read, written, elsewhere = _read(own), _written(own), _written(others)
    alone = of_a_trip.isdisjoint((read | written) & (_read(others) | elsewhere))
    return alone and read.isdisjoint(elsewhere) and (read & written) <= inside | of_a_trip


def _read(some: Sequence[Statement]) -> set[str]:
    found = {e.tensor for s in some for root in expressions(s) for e in walk(root) if isinstance(e, Read)}
    return found | {s.buffer for s in some if isinstance(s, Update)}


def moves_all(body: Statement, ends: Sequence[TileAxis], held: AbstractSet[str]) -> bool:
    """Tells whether all that a tile does with memory that holds a part of a tensor says where the tile begins. In a ring of
    rows that may not be so: where tiles are as long as the ring, each begins at its start."""
    names = {end.loop for end in ends}
    for s in statements(body):
        stores = [(s.buffer, s.indices)] if isinstance(s, (Store, Update)) else []
        reads = [(e.tensor, e.indices) for root in expressions(s) for e in walk(root) if isinstance(e, Read)]
        for indices in [indices for buffer, indices in (*stores, *reads) if buffer in held]:
            folds = [e for index in indices for e in walk(index) if isinstance(e, Op) and e.name == "mod"]
            if any(names & variables(fold) for fold in folds) or not names <= frozenset().union(
                *map(variables, indices)
            ):
                return False
    return True


def moves_by_tiles(node: Statement, end: TileAxis, begin: Expr) -> bool:
    """Tells whether a loop's variable says in no other way than as the begin of a tile which trip it is."""
    return all(_moved(e, end, begin) is not None for s in statements(node) for e in expressions(s))


def with_begin(node: Statement, end: TileAxis, begin: Expr) -> Statement:
    """The statement for a whole tile that begins at `begin`."""

    def moved(expr: Expr) -> Expr:
        found = _moved(expr, end, begin)
        assert found is not None
        return found

    match node:
        case For(extent=extent, valid=valid):
            node = replace(node, extent=moved(extent), valid=None if valid is None else moved(valid))
        case Let(value=value):
            node = replace(node, value=moved(value))
        case If(condition=condition):
            node = replace(node, condition=moved(condition))
        case Store(indices=indices, value=value) | Update(indices=indices, value=value):
            node = replace(node, indices=tuple(map(moved, indices)), value=moved(value))
        case Prefetch(indices=indices):
            node = replace(node, indices=tuple(map(moved, indices)))
    return with_substatements(node, lambda child: with_begin(child, end, begin))


def _moved(expr: Expr, end: TileAxis, begin: Expr) -> Expr | None:
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


def _of_children(expr: Expr, end: TileAxis, begin: Expr) -> Expr | None:
    inner = [_moved(child, end, begin) for child in children(expr)]
    if any(child is None for child in inner):
        return None
    return with_children(expr, tuple(child for child in inner if child is not None))
