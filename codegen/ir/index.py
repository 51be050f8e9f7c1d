"""Index arithmetic of the lowering: small exact helpers on i64 expressions, folded as they are built."""

from __future__ import annotations

from ...tensor.dtype import boolean, i64
from ...tensor.expr import Const, Expr, Op, Var, substitute, variables
from ...tensor.indices.affine import affine, interval, simplify, to_expr

Bounds = dict[str, tuple[int, int]]


def number(value: int) -> Const:
    """An index literal."""
    return Const(value, i64)


def known(expr: Expr) -> int | None:
    """The value of a literal, None for anything else."""
    return int(expr.value) if isinstance(expr, Const) else None


def plus(left: Expr, right: Expr) -> Expr:
    """left + right in normal form."""
    return to_expr(affine(left).plus(affine(right)))


def minus(left: Expr, right: Expr) -> Expr:
    """left - right in normal form: equal parts cancel."""
    return to_expr(affine(left).minus(affine(right)))


def times(expr: Expr, factor: int) -> Expr:
    """factor * expr in normal form."""
    return to_expr(affine(expr).times(factor))


def floor_div(expr: Expr, divisor: int, bounds: Bounds) -> Expr:
    """expr // divisor, resolved where the ranges of the variables allow it."""
    if divisor == 1:
        return expr
    return simplify(Op("floordiv", (expr, number(divisor)), i64), bounds)


def modulo(expr: Expr, divisor: int, bounds: Bounds) -> Expr:
    """expr % divisor, resolved where the ranges of the variables allow it."""
    if divisor == 1:
        return number(0)
    return simplify(Op("mod", (expr, number(divisor)), i64), bounds)


def ceil_div(expr: Expr, divisor: int, bounds: Bounds) -> Expr:
    """expr / divisor rounded up."""
    value = known(expr)
    if value is not None:
        return number(-(-value // divisor))
    return floor_div(plus(expr, number(divisor - 1)), divisor, bounds)


def smaller(left: Expr, right: Expr) -> Expr:
    """min(left, right), folded when both are literals."""
    a, b = known(left), known(right)
    if a is not None and b is not None:
        return number(min(a, b))
    return Op("min", (left, right), i64)


def larger(left: Expr, right: Expr) -> Expr:
    """max(left, right), folded when both are literals."""
    a, b = known(left), known(right)
    if a is not None and b is not None:
        return number(max(a, b))
    return Op("max", (left, right), i64)


def less(left: Expr, right: Expr) -> Expr:
    """left < right."""
    return Op("lt", (left, right), boolean)


def both(left: Expr | None, right: Expr | None) -> Expr | None:
    """The conjunction of two conditions; None is true."""
    if left is None or right is None:
        return right if left is None else left
    return Op("and", (left, right), boolean)


def inside(expr: Expr, extent: int, bounds: Bounds) -> Expr | None:
    """The condition 0 <= expr < extent, or None where the ranges show that it holds."""
    low, high = interval(expr, bounds)
    lower = None if low >= 0 else Op("ge", (expr, number(0)), boolean)
    upper = None if high < extent else Op("lt", (expr, number(extent)), boolean)
    return both(lower, upper)


def settled(expr: Expr, bounds: Bounds) -> Expr:
    """The expression without its variables that have one value only."""
    ranges = {name: bounds[name] for name in variables(expr) if name in bounds}
    return substitute(expr, {name: number(low) for name, (low, high) in ranges.items() if low == high})


def variable(name: str) -> Var:
    """A loop variable."""
    return Var(name)
