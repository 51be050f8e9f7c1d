"""Indices that data say, in lanes half as wide as an i64: clamped numbers, as of bins, cells and tables.

    min(max(i64(f), 0), 10)   ->   i64(min(max(i32(min(max(f, -2^30), 2^30)), 0), 10))

Floats become i32 by one instruction a vector, but i64 one by one before AVX-512, and lanes of i32 are compared by one
instruction. A float that i32 does not hold is moved to an end of +-2^30 first. Minima, maxima and sums with small numbers leave
it beyond all that the result can be, so that the ends of the result decide as they would have done for the whole number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...tensor.dtype import Kind, f32, f64, i32, i64
from ...tensor.expr import Cast, Const, Expr, Op
from .types import Value, literal
from .values import Arithmetic

FARTHEST = 1 << 30
_HELD = (1 << 31) - 1


class _Reach(NamedTuple):
    """Says how large a narrow number gets, and up to which size it is the wide one: beyond, both lie beyond `exact`."""

    most: int
    exact: int | None  # None: always


def is_narrow(expr: Expr, low: int, high: int) -> bool:
    """Says whether an i64 that lies between `low` and `high` can be computed in lanes of i32."""
    reach = _reach(expr) if isinstance(expr, Op) else None
    if reach is None:
        return False
    limit = _HELD if reach.exact is None else reach.exact
    return -limit <= low and high <= limit


def _reach(expr: Expr) -> _Reach | None:
    match expr:
        case Const(value=number):
            return _Reach(abs(int(number)), None) if abs(number) <= FARTHEST else None
        case Cast(arg=arg) if arg.dtype.is_float:
            return _Reach(FARTHEST, FARTHEST)
        case Cast(arg=arg) if arg.dtype.bits < 32 or arg.dtype == i32:
            return _Reach(1 << (arg.dtype.bits - (arg.dtype.kind is Kind.SIGNED)), None)
        case Op(name="min" | "max" | "add" | "sub" as name, args=(left, right)):
            one, other = _reach(left), _reach(right)
            if one is not None and other is not None:
                return _sum(one, other) if name in ("add", "sub") else _either(one, other)
    return None


def _either(one: _Reach, other: _Reach) -> _Reach:
    limits = [reach.exact for reach in (one, other) if reach.exact is not None]
    return _Reach(max(one.most, other.most), min(limits, default=None))


def _sum(one: _Reach, other: _Reach) -> _Reach | None:
    """None where it does not fit, or where both were moved: what was cut off one may have been needed for the other."""
    most = one.most + other.most
    if most > _HELD or (one.exact is not None and other.exact is not None):
        return None
    if one.exact is None and other.exact is None:
        return _Reach(most, None)
    moved, added = (one, other) if other.exact is None else (other, one)
    assert moved.exact is not None
    return _Reach(most, moved.exact - added.most)


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
