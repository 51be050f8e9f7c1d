"""Indices that data say, in lanes half as wide as an i64: clamped numbers, as of bins, cells and tables.

    min(max(i64(f), 0), 10)   ->   i64(min(max(i32(min(max(f, -2^30), 2^30)), 0), 10))

Floats become i32 by one instruction a vector, but i64 one by one before AVX-512, and lanes of i32 are compared by one
instruction. A float that i32 does not hold is moved to an end of +-2^30 first. Minima, maxima and sums with small numbers leave
it beyond all that the result can be, so that the ends of the result decide as they would have done for the whole number.

Sums in i64 wrap. No float but the least i64 itself is so near to an end that adding less than 2^10 gets past it, and that one
only downward: so no more than that is added, and nothing taken away, before both ends are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....tensor.dtype import Kind, f32, f64, i32, i64
from ....tensor.expr import Cast, Const, Expr, Op
from ....tensor.indices.intervals import interval
from ..types import Value, literal
from ..values import Arithmetic

FARTHEST = 1 << 30
STEPS = 1 << 10  # between the greatest i64 and the double before it
_HELD = (1 << 31) - 1


class _NarrowReach(NamedTuple):
    """Says how large a narrow number gets, and up to which size it is the wide one: beyond, both lie beyond `exact`.
    `added`: what has been added to floats."""

    most: int
    exact: int | None = None  # None: always
    added: int = 0


def is_narrow(expr: Expr) -> bool:
    """Says whether an i64 can be computed in lanes of i32."""
    reach = _reach(expr) if isinstance(expr, Op) else None
    return reach is not None and reach.exact is None


def _reach(expr: Expr) -> _NarrowReach | None:
    match expr:
        case Const(value=number):
            return _NarrowReach(abs(int(number))) if abs(number) <= FARTHEST else None
        case Cast(arg=arg) if arg.dtype.is_float:
            return _NarrowReach(FARTHEST, FARTHEST)
        case Cast(arg=arg) if arg.dtype.bits < 32 or arg.dtype == i32:
            return _NarrowReach(1 << (arg.dtype.bits - (arg.dtype.kind is Kind.SIGNED)))
        case Op(name="min" | "max" | "add" | "sub" as name, args=(left, right)):
            one, other = _reach(left), _reach(right)
            if one is None or other is None:
                return None
            if name in ("min", "max"):
                return _bounded(expr, _either(one, other))
            if one.exact is None and other.exact is None:
                most = one.most + other.most
                return _NarrowReach(most) if most <= _HELD else None
            return (_moved_on(one, right) or _moved_on(other, left)) if name == "add" else None
    return None


def _either(one: _NarrowReach, other: _NarrowReach) -> _NarrowReach:
    limits = [reach.exact for reach in (one, other) if reach.exact is not None]
    return _NarrowReach(max(one.most, other.most), min(limits, default=None), max(one.added, other.added))


def _bounded(expr: Expr, reach: _NarrowReach) -> _NarrowReach:
    """A number both of whose ends are known is the wide one."""
    low, high = interval(expr, {})
    if reach.exact is None or not -reach.exact <= low <= high <= reach.exact:
        return reach
    return _NarrowReach(max(abs(low), abs(high)))


def _moved_on(moved: _NarrowReach, more: Expr) -> _NarrowReach | None:
    """A number that comes from floats, and a small one."""
    if (
        moved.exact is None
        or not isinstance(more, Const)
        or not 0 <= moved.added + more.value < STEPS
        or more.value < 0
    ):
        return None
    step = int(more.value)
    return _NarrowReach(moved.most + step, moved.exact - step, moved.added + step)


def narrow(arithmetic: Arithmetic, expr: Expr, value_of: Callable[[Expr], Value]) -> Value:
    """The number as an i32, for an expression that `is_narrow`. `value_of` evaluates what numbers are made of."""
    match expr:
        case Const(value=number):
            return Value(literal(number, i32), i32)
        case Cast(arg=arg) if arg.dtype.is_float:
            return arithmetic.cast(_moved(arithmetic, value_of(arg)), i32)
        case Cast(arg=arg):
            return arithmetic.cast(value_of(arg), i32)
    assert isinstance(expr, Op)
    assert expr.dtype == i64
    return arithmetic.apply(expr.name, [narrow(arithmetic, arg, value_of) for arg in expr.args], i32)


def _moved(arithmetic: Arithmetic, value: Value) -> Value:
    """A float to within the ends, NaN to one of them: of it any integer may be made."""
    wide = arithmetic.cast(value, f64 if value.dtype == f64 else f32)
    for name, end in (("min", FARTHEST), ("max", -FARTHEST)):
        limit = arithmetic.spread(Value(literal(end, wide.dtype), wide.dtype), wide.lanes)
        wide = arithmetic.forgetful_extremum(name, wide, limit)
    return wide
