"""Minima and maxima of several floats: max(max(max(a, b), c), d).

Of two, NaN is asked for at each step, and each step of a chain waits for the answer of the one before it (values.py). Here all
steps are one instruction that forgets NaN, in a tree, and whether some number is NaN is asked for beside them, two at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...tensor.expr import Expr, Op
from ...tensor.stage_edits import operands
from .types import Value, literal
from .values import Arithmetic

LEAST = 5  # operands: fewer are taken one after another
CHAINS = 4  # of questions for NaN that do not wait for one another


def several(expr: Op) -> list[Expr] | None:
    """Returns the operands of nested minima, or maxima, of floats; None where they are few."""
    if expr.name not in ("min", "max") or not expr.dtype.is_float or expr.dtype.bits == 16:
        return None
    found = operands(expr, expr.name)
    return found if len(found) >= LEAST else None


def extremum_of(arithmetic: Arithmetic, name: str, values: Iterator[Value]) -> Value:
    """Combines several floats: NaN if one operand is NaN, and any zero of two. Scalars are taken one after another.

    `values` are made as they are needed, so that few registers wait.
    """
    ordered: list[Value] = []
    parts: list[tuple[int, Value]] = []  # of the tree: how high, and the extremum
    single: Value | None = None
    for number, (one, other) in enumerate(pairwise_apart(values)):
        if not one.lanes or other is None or not other.lanes:
            for value in (one, other):
                if value is not None:
                    single = value if single is None else arithmetic.apply(name, [value, single], value.dtype)
            continue
        here = arithmetic.ordered(one, other)
        if len(ordered) < CHAINS:
            ordered.append(here)
        else:
            ordered[number % CHAINS] = arithmetic.apply("and", [ordered[number % CHAINS], here], here.dtype)
        parts.append((0, arithmetic.forgetful_extremum(name, one, other)))
        while len(parts) > 1 and parts[-1][0] == parts[-2][0]:
            _join(arithmetic, name, parts)
    if not parts:
        assert single is not None
        return single
    while len(parts) > 1:
        _join(arithmetic, name, parts)
    ((_, found),) = parts
    all_ordered, *others = ordered
    for question in others:
        all_ordered = arithmetic.apply("and", [all_ordered, question], question.dtype)
    nan = arithmetic.spread(Value(literal(math.nan, found.dtype), found.dtype), found.lanes)
    found = arithmetic.select(all_ordered, found, nan)
    return found if single is None else arithmetic.apply(name, [single, found], found.dtype)


def _join(arithmetic: Arithmetic, name: str, parts: list[tuple[int, Value]]) -> None:
    (_, one), (height, other) = parts[-2:]
    parts[-2:] = [(height + 1, arithmetic.forgetful_extremum(name, one, other))]


def pairwise_apart(values: Iterator[Value]) -> Iterator[tuple[Value, Value | None]]:
    """Two and two; the last one alone where they are odd."""
    for one in values:
        yield one, next(values, None)
