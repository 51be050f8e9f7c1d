"""Trips of a loop over vectors at the borders of a tensor are written out, so that their masks are known when code is made.

    for j < 7 { if r and 1 <= j and j < 6: easy else: guarded }     # guarded: lanes are masked by where j is
    ->  guarded for j = 0, for j = 1 .. 5 { if r: easy else: guarded }, guarded for j = 6

A mask of lanes that is computed costs more than the loads which it is for: a row of 14 elements with borders of two, copied in
three vectors, took an EPYC of Zen 3 a hundred cycles. Loops of few trips are written out as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...schedules.loops import WRITTEN_OUT
from ...tensor.expr import Expr, Op, Var, variables, walk
from ...tensor.indices.affine import interval
from ...tensor.indices.bounds import conjuncts
from ..ir.index import Bounds, both, known, number, plus
from ..ir.loop_ir import (
    Allocate,
    Block,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    Statement,
    Store,
    Update,
    with_substatements,
)
from .peel_interiors import EasyTrips, inside

WHOLE = 4  # trips up to which a loop is written out
EACH = 2  # trips at one border that are


def known_borders(program: LoopProgram) -> LoopProgram:
    """Writes out trips whose masks are known then; results stay the same, bit for bit."""
    return program.with_bodies(_written)


def _written(node: Statement) -> Statement:
    node = with_substatements(node, _written)
    if not isinstance(node, For) or node.kind is not LoopKind.SERIAL or node.unroll != 1:
        return node
    trips = known(node.extent)
    if trips is None or trips < 2 or not _masks(node.body, frozenset((node.var,)), frozenset()):
        return node
    if trips <= WHOLE:
        return replace(node, unroll=trips)
    found = inside(node)
    return node if found is None else _cut(node, trips, found)


def _masks(node: Statement, moving: frozenset[str], lanes: frozenset[str]) -> bool:
    """Says whether a trip chooses what it reads lane by lane, by where it is, and runs no loop. `moving`: names that differ
    from trip to trip; `lanes`: from lane to lane."""
    match node:
        case Block(body=body):
            return not any(map(_loops, body)) and any(_masks(child, moving, lanes) for child in body)
        case Let(var=var, value=value, body=inner):
            return _masks(inner, moving | {var} if variables(value) & moving else moving, lanes)
        case Allocate(body=inner):
            return _masks(inner, moving, lanes)
        case If(then=then, otherwise=otherwise):
            arms = [then] if otherwise is None else [then, otherwise]
            return not any(map(_loops, arms)) and any(_masks(arm, moving, lanes) for arm in arms)
        case For() if not _loops(node):
            return _masks(node.body, moving, lanes | {node.var} if node.kind is LoopKind.VECTOR else lanes)
        case Store(value=value) | Update(value=value):
            asked = (variables(part) for part in _asked(value))
            return any(names & moving and names & lanes for names in asked)
    return False


def _loops(node: Statement) -> bool:
    """Says whether code of a statement has a loop in it."""
    match node:
        case For(kind=kind, extent=extent, unroll=unroll, body=body):
            trips = known(extent)
            written = kind in WRITTEN_OUT or (kind is LoopKind.SERIAL and trips is not None and trips <= max(1, unroll))
            return not written or _loops(body)
        case Block(body=parts):
            return any(map(_loops, parts))
        case Let(body=body) | Allocate(body=body):
            return _loops(body)
        case If(then=then, otherwise=otherwise):
            return _loops(then) or (otherwise is not None and _loops(otherwise))
    return False


def _asked(value: Expr) -> Iterator[Expr]:
    for node in walk(value):
        if isinstance(node, Op) and node.name == "select":
            yield from conjuncts(node.args[0])


def _cut(loop: For, trips: int, found: EasyTrips) -> Statement:
    """The loop in three parts, if it is known which trips are at the borders, and these are few."""
    first, end = known(found.begin), known(found.end(number(trips)))
    if first is None or end is None or first > EACH or end < trips - EACH or end - first < 2:
        return loop
    before = [Let(loop.var, number(trip), loop.body) for trip in range(first)]
    behind = [Let(loop.var, number(trip), loop.body) for trip in range(end, trips)]
    if not before and not behind:
        return loop
    easy = f"{loop.var}_easy"
    body = _without(loop.body, frozenset((loop.var,)), {loop.var: (first, end - 1)})
    middle = replace(
        loop, var=easy, extent=number(end - first), body=Let(loop.var, plus(Var(easy), number(first)), body)
    )
    return Block((*before, middle, *behind))


def _without(node: Statement, moving: frozenset[str], bounds: Bounds) -> Statement:
    """The body of a trip inside, which asks only what does not depend on the trip."""
    match node:
        case Block(body=body):
            return Block(tuple(_without(child, moving, bounds) for child in body))
        case Let(var=var, value=value, body=body):
            moves = variables(value) & moving
            low, high = interval(value, bounds) if variables(value) <= bounds.keys() else (0, 1)
            names = moving | {var} if moves else moving
            settled = {**bounds, var: (low, high)} if variables(value) <= bounds.keys() else bounds
            inner = _without(body, names, settled)
            return replace(node, value=number(low) if low == high else value, body=inner)
        case For(body=body) | Allocate(body=body):
            return replace(node, body=_without(body, moving, bounds))
        case If(condition=condition, then=then, otherwise=otherwise) if otherwise is not None:
            rest: Expr | None = None
            for part in conjuncts(condition):
                if not variables(part) & moving:
                    rest = both(rest, part)
            return then if rest is None else If(rest, then, otherwise)
    return node
