"""Loops are cut where a condition on indices begins to fail, so that their first part is free of it.

    for j < n unroll 4 { unroll r < 6 { acc[r] += select(j <= i + r, p[r, j] * v[j], 0) } }
    ->  let w = ..                      groups of trips for which the condition holds for every r
        for g < w { unroll u < 4 { unroll r < 6 { acc[r] += p[r, 4 g + u] * v[4 g + u] } } }
        for t < n - 4 w { let j = 4 w + t { unroll r < 6 { acc[r] += select(j <= i + r, p[r, j] * v[j], 0) } } }

A condition in the innermost code keeps a product and a sum from being one instruction, and costs comparisons in every trip; a
causal mask is true for most of them. Only innermost loops are cut: those with nothing but unrolled loops, vectors and
loops of one trip inside. Where nothing but constants would be stored once a condition fails throughout, as words of elements
that do not count, these trips are a third part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from ...schedules.loops import WRITTEN_OUT
from ...tensor.dtype import boolean, i64
from ...tensor.expr import Expr, Op, Read, Var, rewrite, walk
from ...tensor.indices.affine import Affine, interval_of_form, to_expr
from ...tensor.indices.bounds import bound_of, conjuncts
from ..ir.index import Bounds, floor_div, known, larger, minus, number, plus, smaller, times
from ..ir.loop_ir import (
    Block,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    Statement,
    Store,
    Update,
    statements,
    with_substatements,
)


def whole_ranges(program: LoopProgram) -> LoopProgram:
    """Cuts loops where a condition begins to fail; results stay the same, bit for bit."""
    cut = _Cut()
    return replace(program, nests=tuple(replace(nest, body=cut.statement(nest.body)) for nest in program.nests))


class _Cut:
    """Rewrites statements; counts the variables it has made."""

    def __init__(self) -> None:
        self.count = 0

    def statement(self, node: Statement) -> Statement:
        """The statement with its loops cut."""
        if isinstance(node, For) and node.kind is LoopKind.SERIAL:
            return self.loop(node)
        return with_substatements(node, self.statement)

    def loop(self, node: For) -> Statement:
        """A serial loop in parts, where it is innermost and conditions fail in its later trips only."""
        inside = list(statements(node.body))
        loops = [s for s in inside if isinstance(s, For)]
        if any(loop.kind not in WRITTEN_OUT and known(loop.extent) != 1 for loop in loops):
            return replace(node, body=self.statement(node.body))
        spans = {loop.var: (0, value - 1) for loop in loops if (value := known(loop.extent)) is not None}
        made = {s.var for s in inside if isinstance(s, (For, Let))} - spans.keys()
        found: dict[Expr, _Trips] = {}
        for conditions in _conditions(inside):
            trips = {condition: _trips(condition, node.var, spans, made) for condition in conditions}
            if None not in trips.values():
                found |= {condition: until for condition, until in trips.items() if until is not None}
        return self._in_parts(node, found) if found else node

    def _in_parts(self, node: For, found: dict[Expr, _Trips]) -> Statement:
        count = reduce(smaller, dict.fromkeys(trips.whole for trips in found.values()), node.extent)
        first, copy = self._name(node.var, "whole"), self._name(node.var, "copy")
        outer, _, label = node.label.rpartition("+")
        groups = floor_div(Op("max", (count, number(0)), i64), node.unroll, {})
        start = times(Var(first), node.unroll)
        easy = without(node.body, frozenset(found))
        if node.unroll == 1:
            main = replace(node, body=easy, extent=Var(first))
        else:
            group = self._name(node.var, "group")
            easy = Let(node.var, plus(times(Var(group), node.unroll), Var(copy)), easy)
            main = For(
                group, Var(first), For(copy, number(node.unroll), easy, LoopKind.UNROLL, label=label), label=outer
            )
        return Let(first, groups, Block((main, self._rest(node, found, start, label))))

    def _rest(self, node: For, found: dict[Expr, _Trips], start: Expr, label: str) -> Statement:
        """The trips from `start` on: those in which conditions hold in part, and those in which they fail."""
        rest = self._name(node.var, "rest")

        def trips(name: str, start: Expr, end: Expr, body: Statement) -> Statement:
            return For(name, minus(end, start), Let(node.var, plus(start, Var(name)), body), label=label)

        empty = _where_fails(node.body, frozenset(found))
        if not _stores_constants(empty):
            return trips(rest, start, node.extent, node.body)
        ends = self._name(node.var, "ends")
        last = reduce(larger, dict.fromkeys(trips.part for trips in found.values()))
        end, fill = Var(ends), self._name(node.var, "beyond")
        parts = trips(rest, start, end, node.body), trips(fill, end, node.extent, empty)
        return Let(ends, larger(smaller(node.extent, last), start), Block(parts))

    def _name(self, var: str, what: str) -> str:
        self.count += 1
        return f"{var}_{what}_{self.count}"


def _conditions(inside: list[Statement]) -> dict[tuple[Expr, ...], None]:
    """Returns what selects among values test, part by part, and what decides between bodies, as a whole."""
    found: dict[tuple[Expr, ...], None] = {}
    for statement in inside:
        if isinstance(statement, If):
            found[conjuncts(statement.condition)] = None
        if isinstance(statement, (Store, Update)):
            for node in walk(statement.value):
                if isinstance(node, Op) and node.name == "select":
                    found.update(dict.fromkeys((part,) for part in conjuncts(node.args[0])))
    return found


@dataclass(frozen=True, slots=True)
class _Trips:
    """Counts the trips, from the first on, for which a condition holds at all points of the loops inside, and at some."""

    whole: Expr
    part: Expr


def _trips(condition: Expr, var: str, spans: Bounds, made: set[str]) -> _Trips | None:
    """The trips of a condition that fails in later ones; None: not known."""
    form = bound_of(condition)
    if form is None or form.coefficient(Var(var)) <= 0 or form.coefficients.keys() & made:
        return None
    coefficient = form.coefficient(Var(var))
    inner = Affine(tuple((atom, c) for atom, c in form.terms if isinstance(atom, Var) and atom.name in spans), 0)
    outer = times(to_expr(form.minus(inner).plus(Affine(((Var(var), 1),), 0), -coefficient)), -1)
    # coefficient * (trips - 1) + outer + inner <= 0
    part, whole = (
        plus(floor_div(plus(outer, number(-most)), coefficient, {}), number(1))
        for most in interval_of_form(inner, spans)
    )
    return _Trips(whole, part)


def _where_fails(node: Statement, false: frozenset[Expr]) -> Statement:
    """The statement where these conditions fail, of its selects and between its bodies."""

    def settled(expr: Expr) -> Expr | None:
        if isinstance(expr, Op) and expr.name == "select" and not false.isdisjoint(conjuncts(expr.args[0])):
            return expr.args[2]
        return None

    if isinstance(node, Store):
        return replace(node, value=rewrite(node.value, settled))
    if isinstance(node, If) and not false.isdisjoint(conjuncts(node.condition)):
        return _where_fails(node.otherwise or Block(()), false)
    return with_substatements(node, lambda child: _where_fails(child, false))


def _stores_constants(node: Statement) -> bool:
    """Says whether a statement does nothing but store numbers that do not depend on data or places."""
    inside = list(statements(node))
    plain = all(isinstance(s, (Block, For, Let, Store)) for s in inside)
    values = [part for s in inside if isinstance(s, Store) for part in walk(s.value)]
    return plain and bool(values) and not any(isinstance(part, (Read, Var)) for part in values)


def without(node: Statement, true: frozenset[Expr]) -> Statement:
    """The statement where these conditions hold, of its selects and between its bodies."""

    def settled(expr: Expr) -> Expr | None:
        if not isinstance(expr, Op) or expr.name != "select":
            return None
        left = [part for part in conjuncts(expr.args[0]) if part not in true]
        if not left:
            return expr.args[1]
        condition = left[0]
        for part in left[1:]:
            condition = Op("and", (condition, part), boolean)
        return Op("select", (condition, *expr.args[1:]), expr.dtype)

    if isinstance(node, (Store, Update)):
        return replace(node, value=rewrite(node.value, settled))
    if isinstance(node, If) and true.issuperset(conjuncts(node.condition)):
        return without(node.then, true)
    return with_substatements(node, lambda child: without(child, true))
