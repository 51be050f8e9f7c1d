"""Loops are cut where a condition on indices begins to fail, so that their first part is free of it.

    for j < n unroll 4 { unroll r < 6 { acc[r] += select(j <= i + r, p[r, j] * v[j], 0) } }
    ->  let w = ..                      groups of trips for which the condition holds for every r
        for g < w { unroll u < 4 { unroll r < 6 { acc[r] += p[r, 4 g + u] * v[4 g + u] } } }
        for t < n - 4 w { let j = 4 w + t { unroll r < 6 { acc[r] += select(j <= i + r, p[r, j] * v[j], 0) } } }

A condition in the innermost code keeps a product and a sum from being one instruction, and costs comparisons in every trip; a
causal mask is true for most of them. Only innermost loops are cut: those with nothing but unrolled loops and vectors inside.
"""

from __future__ import annotations

from dataclasses import replace

from ...schedules.loops import WRITTEN_OUT
from ...tensor.dtype import boolean, i64
from ...tensor.expr import Expr, Op, Var, rewrite, walk
from ...tensor.indices.affine import Affine, interval_of_form, to_expr
from ...tensor.indices.bounds import bound_of, conjuncts
from ..ir.index import Bounds, floor_div, known, minus, number, plus, smaller, times
from ..ir.loop_ir import (
    Block,
    For,
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
        """A serial loop in two parts, where it is innermost and conditions fail in its later trips only."""
        inside = list(statements(node.body))
        loops = [s for s in inside if isinstance(s, For)]
        if any(loop.kind not in WRITTEN_OUT for loop in loops):
            return replace(node, body=self.statement(node.body))
        spans = {loop.var: (0, value - 1) for loop in loops if (value := known(loop.extent)) is not None}
        made = {s.var for s in inside if isinstance(s, (For, Let))} - spans.keys()
        whole: dict[Expr, Expr] = {}
        for condition in _conditions(inside):
            trips = _trips(condition, node.var, spans, made)
            if trips is not None:
                whole[condition] = trips
        return self._in_two(node, whole) if whole else node

    def _in_two(self, node: For, whole: dict[Expr, Expr]) -> Statement:
        count: Expr = node.extent
        for trips in dict.fromkeys(whole.values()):
            count = smaller(count, trips)
        first, copy, rest = (self._name(node.var, what) for what in ("whole", "copy", "rest"))
        outer, _, label = node.label.rpartition("+")
        groups = floor_div(Op("max", (count, number(0)), i64), node.unroll, {})
        start = times(Var(first), node.unroll)
        easy = without(node.body, frozenset(whole))
        if node.unroll == 1:
            main = replace(node, body=easy, extent=Var(first))
        else:
            group = self._name(node.var, "group")
            easy = Let(node.var, plus(times(Var(group), node.unroll), Var(copy)), easy)
            main = For(
                group, Var(first), For(copy, number(node.unroll), easy, LoopKind.UNROLL, label=label), label=outer
            )
        tail = For(rest, minus(node.extent, start), Let(node.var, plus(start, Var(rest)), node.body), label=label)
        return Let(first, groups, Block((main, tail)))

    def _name(self, var: str, what: str) -> str:
        self.count += 1
        return f"{var}_{what}_{self.count}"


def _conditions(inside: list[Statement]) -> dict[Expr, None]:
    """Returns what selects among values test, part by part."""
    found: dict[Expr, None] = {}
    for statement in inside:
        if isinstance(statement, (Store, Update)):
            for node in walk(statement.value):
                if isinstance(node, Op) and node.name == "select":
                    found.update(dict.fromkeys(conjuncts(node.args[0])))
    return found


def _trips(condition: Expr, var: str, spans: Bounds, made: set[str]) -> Expr | None:
    """Says for how many trips, from the first on, a condition holds whatever the loops inside have come to; None: not known."""
    form = bound_of(condition)
    if form is None or form.coefficient(Var(var)) <= 0 or form.coefficients.keys() & made:
        return None
    coefficient = form.coefficient(Var(var))
    inner = Affine(tuple((atom, c) for atom, c in form.terms if isinstance(atom, Var) and atom.name in spans), 0)
    outer = form.minus(inner).plus(Affine(((Var(var), 1),), 0), -coefficient)
    highest = interval_of_form(inner, spans)[1]
    # coefficient * (trips - 1) + outer + highest <= 0
    return plus(floor_div(plus(times(to_expr(outer), -1), number(-highest)), coefficient, {}), number(1))


def without(node: Statement, true: frozenset[Expr]) -> Statement:
    """The statement where these conditions of its selects hold."""

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
    return with_substatements(node, lambda child: without(child, true))
