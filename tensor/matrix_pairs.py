"""Sums of products of bf16 pairs: what matrix units compute, found in an expression."""

from __future__ import annotations

from dataclasses import dataclass

from .expr import Expr, Op, Read, variables


@dataclass(frozen=True, slots=True)
class MatrixPairs:
    """sum over (p, q) in pairs of low(rows[p]) * low(columns[q]) + high(rows[p]) * high(columns[q])"""

    rows: tuple[Read, ...]
    columns: tuple[Read, ...]
    pairs: tuple[tuple[int, int], ...]


def matrix_pairs(expr: Expr, row: str, column: str) -> MatrixPairs | None:
    """The reads and their pairs, or None for an expression of another form.

    `row`, `column`: the axes along which alone the one and the other factor of each product move.
    """
    halves: dict[str, list[tuple[Read, Read]]] = {"bf16_low": [], "bf16_high": []}
    for term in _terms(expr):
        match term:
            case Op(name="mul", args=(Op(name=one, args=(Read() as x,)), Op(name=two, args=(Read() as y,)))) if (
                one == two and one in halves
            ):
                halves[one].append((x, y))
            case _:
                return None
    found = halves["bf16_low"]
    if not found or sorted(map(repr, found)) != sorted(map(repr, halves["bf16_high"])):
        return None
    if any(column in variables(x) or row in variables(y) for x, y in found):
        return None
    rows, columns = (tuple(dict.fromkeys(pair[side] for pair in found)) for side in (0, 1))
    return MatrixPairs(rows, columns, tuple((rows.index(x), columns.index(y)) for x, y in found))


def _terms(expr: Expr) -> list[Expr]:
    match expr:
        case Op(name="add", args=(left, right)):
            return [*_terms(left), *_terms(right)]
    return [expr]
