"""How a value is put together along an axis, as that of a concat is: by choices between what lies before and what behind."""

from __future__ import annotations

from collections.abc import Iterator

from ...tensor.expr import Expr, Op, Var
from ...tensor.indices.affine import affine
from ...tensor.program import Axis

MOST = 16  # pieces that a rewrite makes stages of


def pieces_of(value: Expr, axis: Axis, start: int, end: int) -> Iterator[tuple[int, int, Expr]]:
    """Splits the range of an axis where a `select` on that axis does: (first point, end, the value between them)."""
    if isinstance(value, Op) and value.name == "select":
        condition, below, above = value.args
        if isinstance(condition, Op) and condition.name in ("lt", "ge"):
            form = affine(condition.args[0]).minus(affine(condition.args[1]))
            if form.terms == ((Var(axis.name), 1),):
                border = min(max(-form.constant, start), end)
                if condition.name == "ge":
                    below, above = above, below
                yield from pieces_of(below, axis, start, border) if border > start else ()
                yield from pieces_of(above, axis, border, end) if border < end else ()
                return
    yield start, end, value
