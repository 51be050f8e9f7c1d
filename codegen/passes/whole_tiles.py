"""Where there are no masks in hardware, the last of the tiles inside of which others run begins earlier, too.

    for p < n { let size = min(96, extent - 96 p); ... for q { let part = min(32, size - 32 q); ... vectors ... } }
    ->  for p < n { let size = that, rounded up to a multiple of 32; let begin = min(96 p, extent - size); ... }

So its rows end with a whole vector. whole_ends.py moves the tiles inside of it, which it cannot where the tile around them is
shorter than one of them, and where the rows around are the few that a window needs anew. What is computed once more is less
than one of the tiles inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd, lcm

from ...tensor.expr import Const, Expr, Op, Var, variables
from ...tensor.indices.affine import Affine, affine, interval, to_expr
from ..ir.index import ceil_div, number, smaller
from ..ir.loop_ir import Allocate, For, Let, LoopKind, LoopProgram, Statement, statements, with_substatements
from .tile_begins import (
    Surroundings,
    TileAxis,
    can_run_again,
    divisor_of,
    moves_all,
    moves_by_tiles,
    with_begin,
    with_nests,
)


def whole_tiles(program: LoopProgram, divisors: Mapping[str, int] | None = None) -> LoopProgram:
    """An equal program. `divisors`: as of whole_ends."""
    return with_nests(program, _WholeTiles(Surroundings(), divisors or {}).statement)


@dataclass(frozen=True, slots=True)
class _Begin:
    """The begin of a tile: a name for a number of steps. `inner`: points of which it will have a multiple."""

    name: str
    step: int
    inner: int

    @property
    def place(self) -> Expr:
        """The first point."""
        return to_expr(affine(Var(self.name)).times(self.step))


class _WholeTiles:
    """Rewrites the statements at one place."""

    def __init__(self, around: Surroundings, divisors: Mapping[str, int]) -> None:
        self.around = around
        self.divisors = divisors

    def statement(self, node: Statement) -> Statement:
        """The statement with its tiles made whole."""
        if isinstance(node, For):
            node = self._tile(node)
        if isinstance(node, (For, Let, Allocate)):
            inside = _WholeTiles(self.around.inside(node), self.divisors)
            return replace(node, body=inside.statement(node.body))
        return with_substatements(node, self.statement)

    def _tile(self, loop: For) -> For:
        """A loop over tiles, the last of which begins earlier if it can."""
        match loop.body:
            case Let(var=size, value=Op(name="min", args=(Const(value=tile), left)), body=body):
                axis = self._axis(loop, size, int(tile), affine(left))
            case _:
                return loop
        begin = None if axis is None else _begin(body, axis)
        if axis is None or begin is None or not self._can_move(loop, body, axis, begin):
            return loop
        count = ceil_div(loop.body.value, begin.inner, {})
        steps = Affine(
            tuple((atom, times // begin.step) for atom, times in axis.extent.terms), axis.extent.constant // begin.step
        )
        first = affine(Var(loop.var)).times(axis.tile // begin.step)
        last = steps.plus(affine(count), -(begin.inner // begin.step))
        body = with_begin(_with_whole_parts(body, size, begin.inner), replace(axis, size=""), begin.place)
        body = Let(begin.name, smaller(to_expr(first), to_expr(last)), body)
        return replace(loop, body=Let(size, to_expr(affine(count).times(begin.inner)), body))

    def _axis(self, loop: For, size: str, tile: int, left: Affine) -> TileAxis | None:
        """The axis whose tiles a loop is over; None where it may be shorter than a tile."""
        if left.coefficient(Var(loop.var)) != -tile:
            return None
        extent = left.plus(affine(Var(loop.var)), tile)
        if loop.var in variables(to_expr(extent)) or interval(to_expr(extent), self.around.bounds)[0] < tile:
            return None
        return TileAxis(loop.var, size, tile, extent)

    def _can_move(self, loop: For, body: Statement, axis: TileAxis, begin: _Begin) -> bool:
        """Tells whether tiles of a loop may begin elsewhere."""
        divisor = divisor_of(body, self.divisors)
        places = (begin.inner, axis.extent.constant, *(times for _, times in axis.extent.terms))
        return (
            not any(place % divisor for place in places)
            and moves_by_tiles(body, replace(axis, size=""), begin.place)
            and can_run_again(body, body, loop)
            and moves_all(body, [axis], self.around.held_at(loop))
        )


def _begin(body: Statement, axis: TileAxis) -> _Begin | None:
    """The begin of a last tile that ends with whole vectors; None where it does so anyway, or has no vectors."""
    inner = lcm(*(tile for _, tile in _parts(body, axis.size)))
    whole = not any(times % inner for times in (axis.extent.constant, *(times for _, times in axis.extent.terms)))
    if inner == 1 or axis.tile % inner or whole:
        return None
    step = gcd(axis.tile, inner, axis.extent.constant, *(times for _, times in axis.extent.terms))
    return _Begin(f"{axis.loop}_start", step, inner)


def _parts(body: Statement, size: str) -> Iterator[tuple[str, int]]:
    """Returns the sizes of parts of a tile that end in vectors, and of how many points the whole ones are."""
    asked = {
        name for s in statements(body) if isinstance(s, For) and s.kind is LoopKind.VECTOR and s.valid is not None
        for name in variables(s.valid)
    }  # fmt: skip
    for s in statements(body):
        match s:
            case Let(var=part, value=Op(name="min", args=(Const(value=tile), left))) if part in asked:
                form = affine(left)
                others = [times for atom, times in form.terms if atom != Var(size)]
                if form.coefficient(Var(size)) == 1 and form.constant == 0 and others == [-tile]:
                    yield part, int(tile)


def _with_whole_parts(body: Statement, size: str, inner: int) -> Statement:
    """The statement where the size of the tile is a multiple of all sizes of its parts."""
    whole = dict(_parts(body, size))

    def changed(node: Statement) -> Statement:
        if isinstance(node, Let) and node.var in whole:
            node = replace(node, value=number(whole[node.var]))
        return with_substatements(node, changed)

    return changed(body)
