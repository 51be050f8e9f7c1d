"""Serial loops over blocks are run in two parts where blocks are asked whether they lie inside of all borders.

    for j < n { if r and 1 <= j and j < m: easy  else: guarded }
    ->  let first = 1, count = min(n, m) - 1, or 0 where r fails
        for k < count { let j = first + k: easy }
        for k < n - count { let j = k, behind the easy ones k + count: guarded }

The question costs as much as the work of a block of a stencil, or as a copy of a few vectors. Loops are cut whose trips can run
in any order: what they store none of them reads, but for what lives in one trip alone. Loops inside of them on which the
answer does not depend go with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

from ...schedules.loops import WRITTEN_OUT, LoopKind
from ...tensor.expr import Expr, Op, Read, Var, variables, walk
from ...tensor.indices.affine import Affine, affine, to_expr
from ...tensor.indices.bounds import conjuncts, form_of
from ..ir.index import floor_div, known, larger, minus, number, plus, smaller, times
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

FEW = 4  # trips of a loop that is not worth it
FAR = 1 << 40  # more than any loop has trips
_PEELED = (*WRITTEN_OUT, LoopKind.SERIAL)  # kinds of loops that a loop which is cut may hold
_SIMPLE = (Allocate, Block, For, If, Let, Prefetch, Store, Update)


def peel_interiors(program: LoopProgram) -> LoopProgram:
    """Splits loops over blocks into borders and interior; results stay the same, bit for bit."""
    return program.with_bodies(_peeled)


def _peeled(node: Statement) -> Statement:
    if isinstance(node, For) and (found := inside(node)) is not None:
        return _in_two(node, found)
    return with_substatements(node, _peeled)


@dataclass(frozen=True, slots=True)
class EasyTrips:
    """The trips for which the condition of a loop's body holds: from the greatest of `first`, 0 for none, to the least of
    `ends`, if the forms of `always` are at most 0."""

    first: tuple[Expr, ...]
    ends: tuple[Expr, ...]
    always: tuple[Affine, ...]

    @property
    def begin(self) -> Expr:
        """The first of them."""
        begin: Expr = number(0)
        return reduce(larger, self.first, begin)

    def end(self, extent: Expr) -> Expr:
        """The first one behind them, of a loop of so many trips."""
        return reduce(smaller, self.ends, extent)


def inside(loop: For) -> EasyTrips | None:
    """Returns for which trips of a loop its body is easy; None where that is not known, or its trips have an order."""
    trips = known(loop.extent)
    if loop.kind is not LoopKind.SERIAL or loop.unroll != 1 or (trips is not None and trips < FEW):
        return None
    found = list(_choices(loop.body, {}))
    if len(found) != 1 or not _in_any_order(loop):
        return None
    choice, lets = found[0]
    made = {s.var for s in statements(loop.body) if isinstance(s, (For, Let))}
    first: list[Expr] = []
    ends: list[Expr] = []
    always: list[Affine] = []
    for part in conjuncts(choice.condition):
        form = form_of(part)
        if form is None:
            return None
        for bound in _without_lets(form, lets):
            moves = bound.coefficient(Var(loop.var))
            rest = bound.plus(affine(Var(loop.var)), -moves)
            if (loop.var in variables(to_expr(rest))) or made & variables(to_expr(rest)):
                return None
            if moves > 0:  # moves * trip + rest <= 0
                ends.append(plus(floor_div(to_expr(rest.times(-1)), moves, {}), number(1)))
            elif moves < 0:
                first.append(floor_div(plus(to_expr(rest), number(-moves - 1)), -moves, {}))
            else:
                always.append(rest)
    return EasyTrips(tuple(first), tuple(ends), tuple(always)) if first or ends else None


def _choices(node: Statement, lets: dict[str, Expr]) -> Iterator[tuple[If, dict[str, Expr]]]:
    """The choices between two bodies that stand in every trip, with what has been named around them."""
    match node:
        case Block(body=body):
            for child in body:
                yield from _choices(child, lets)
        case Let(var=var, value=value, body=inner):
            yield from _choices(inner, {**lets, var: value})
        case For(body=inner) | Allocate(body=inner):
            yield from _choices(inner, lets)
        case If(otherwise=otherwise) if otherwise is not None:
            yield node, lets


def _in_any_order(loop: For) -> bool:
    inside = list(statements(loop.body))
    if not all(isinstance(s, _SIMPLE) and not (isinstance(s, For) and s.kind not in _PEELED) for s in inside):
        return False
    own = {s.buffer.name for s in inside if isinstance(s, Allocate)}
    stores = [s for s in inside if isinstance(s, (Store, Update))]
    stored = {s.buffer for s in stores} - own
    if any(isinstance(s, Update) and s.buffer in stored for s in stores):
        return False
    reads = (n for s in stores for n in walk(s.value) if isinstance(n, Read))
    return not any(node.tensor in stored for node in reads)


def _without_lets(form: Affine, lets: dict[str, Expr]) -> Iterator[Affine]:
    """Forms that are all at most 0 where this one is, without names: -min(a, b) is at most 0 where -a and -b are."""
    for atom, times_it in form.terms:
        value = lets.get(atom.name) if isinstance(atom, Var) else atom
        if value is None or (value is atom and not isinstance(value, Op)):
            continue
        rest = form.plus(affine(atom), -times_it)
        if isinstance(value, Op) and value.name == ("min" if times_it < 0 else "max"):
            for arg in value.args:
                yield from _without_lets(rest.plus(affine(arg), times_it), lets)
            return
        if value is not atom:
            yield from _without_lets(rest.plus(affine(value), times_it), lets)
            return
    yield form


def _in_two(loop: For, found: EasyTrips) -> Statement:
    first_name, count_name, easy, rest = (f"{loop.var}_{what}" for what in ("first", "count", "easy", "rest"))
    first, count = found.begin, minus(found.end(loop.extent), Var(first_name))
    for form in found.always:  # 1 - form is positive where it holds
        count = smaller(count, to_expr(Affine((), 1).plus(form, -1).times(FAR)))
    # What has to be added to a trip of the rest: 0 before the first easy one, from there on the number of easy ones.
    behind = smaller(larger(times(plus(minus(Var(rest), Var(first_name)), number(1)), FAR), number(0)), Var(count_name))
    main = replace(
        loop,
        var=easy,
        extent=Var(count_name),
        body=Let(loop.var, plus(Var(first_name), Var(easy)), _taking(loop.body, first=True)),
    )
    others = replace(
        loop,
        var=rest,
        extent=minus(loop.extent, Var(count_name)),
        body=Let(loop.var, plus(Var(rest), behind), _taking(loop.body, first=False)),
    )
    return Let(first_name, first, Let(count_name, larger(count, number(0)), Block((main, others))))


def _taking(node: Statement, first: bool) -> Statement:
    """The body with one of the two that it chooses between."""
    match node:
        case Block(body=body):
            return Block(tuple(_taking(child, first) for child in body))
        case Let(body=body) | For(body=body) | Allocate(body=body):
            return replace(node, body=_taking(body, first))
        case If(then=then, otherwise=otherwise) if otherwise is not None:
            return then if first else otherwise
    return node
