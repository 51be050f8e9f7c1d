"""Sums of products of what words hold: what matrix units compute, found in an expression."""

from __future__ import annotations

from dataclasses import dataclass

from .dots import dot_of
from .expr import Expr, Op, Read, variables


@dataclass(frozen=True, slots=True)
class MatrixPairs:
    """sum over (p, q) in pairs of the products of what the words rows[p] and columns[q] hold, of the element types `a`, `b`"""

    rows: tuple[Read, ...]
    columns: tuple[Read, ...]
    pairs: tuple[tuple[int, int], ...]
    a: str = "bf16"
    b: str = "bf16"


def matrix_pairs(expr: Expr, row: str, column: str) -> MatrixPairs | None:
    """The reads and their pairs, or None for an expression of another form: one dot of two words, or halves of bf16.

    `row`, `column`: the axes along which alone the one and the other factor of each product move.
    """
    dot = dot_of(expr)
    match expr:
        case Op(args=(Read() as x, Read() as y)) if dot is not None:
            a, b = dot.left, dot.right
            if column in variables(x) or row in variables(y):
                (x, a), (y, b) = (y, b), (x, a)
            fits = not (column in variables(x) or row in variables(y))
            return MatrixPairs((x,), (y,), ((0, 0),), a, b) if fits else None
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
