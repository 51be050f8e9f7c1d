"""The order in which elements are sorted."""

from __future__ import annotations

from ..dtype import boolean
from ..expr import Expr


def before(a: Expr, b: Expr, descending: bool) -> Expr:
    """Says whether a stands before b in the order; NaN is the greatest."""
    if descending:
        a, b = b, a
    if a.dtype == boolean:
        return ~a & b
    return (a < b) | (a.equal(a) & b.not_equal(b)) if a.dtype.is_float else a < b
