"""Ranges of integer operators from those of their operands, and which arithmetic may wrap.

Arithmetic of indices does not wrap: axes are short. That of data in i64 may, as in NumPy, and then no law of whole numbers
holds for it: x * 2 // 2 is not x, and min(x + 1, x) may be either.
"""

from __future__ import annotations

from typing import NamedTuple

from ..dtype import DType, Kind, i64
from ..expr import Cast, Const, Expr, Local, Op, Read, Var

Interval = tuple[int, int]

INDEX: Interval = (-(1 << 40), 1 << 40)  # more elements than any memory holds
_LARGEST_STRIDE = 1 << 50  # that of a sum of many axes; tensors have up to 2^44 elements
_FARTHEST = 1 << 60


def range_of(dtype: DType) -> Interval:
    """The least and the greatest number of a dtype."""
    if dtype.kind is Kind.BOOL:
        return 0, 1
    if dtype.kind is Kind.UNSIGNED:
        return 0, 2**dtype.bits - 1
    if dtype.kind is Kind.SIGNED:
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    raise TypeError(f"{dtype} has no integer range")


def within(found: Interval, dtype: DType) -> Interval:
    """`found` where it fits into the dtype; else anything, since the arithmetic may wrap."""
    low, high = range_of(dtype)
    return found if low <= found[0] and found[1] <= high else (low, high)


def unwrapped_range(name: str, args: list[Interval], dtype: DType) -> Interval:
    """The least and the greatest value of an operator on whole numbers in these ranges, be they more than the dtype holds."""
    (a, b), (c, d) = args[0], args[-1]
    match name:
        case "add":
            return a + c, b + d
        case "sub":
            return a - d, b - c
        case "neg":
            return -b, -a
        case "abs":
            return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case "mul" | "floordiv" if name == "mul" or c > 0 or d < 0:
            ends = [x * y if name == "mul" else x // y for x in (a, b) for y in (c, d)]
            return min(ends), max(ends)
        case "floordiv" | "mod" if c == d == 0:
            return 0, 0
        case "mod" if c == d and c > 0:
            return (a % c, b % c) if a // c == b // c else (0, c - 1)
        case "mod" if c > 0:
            return 0, d - 1
    return range_of(dtype)


def interval_of_op(name: str, args: list[Interval], dtype: DType) -> Interval:
    """The least and the greatest value of an operator on operands in these ranges: all of the dtype's if it may wrap."""
    return within(unwrapped_range(name, args, dtype), dtype)


def may_wrap(expr: Op) -> bool:
    """Says whether an i64 operator can have a result that i64 does not hold.

    On data; on axes where a number that they are multiplied by is larger than any stride.
    """
    return _reach(expr).wraps


class _Reach(NamedTuple):
    """Holds the range of an integer or a condition, whether it is made of data, and whether its operator may wrap."""

    range: Interval
    data: bool = True
    wraps: bool = False


def _reach(expr: Expr) -> _Reach:
    match expr:
        case Var():
            return _Reach(INDEX, False)
        case Const(value=value):
            return _Reach((int(value), int(value)), False)
        case Read(dtype=dtype) | Local(dtype=dtype):
            return _Reach(range_of(dtype))
        case Cast(arg=arg, dtype=dtype):
            if not (arg.dtype.is_integer or arg.dtype.name == "bool"):
                return _Reach(range_of(dtype))
            found = _reach(arg)
            return _Reach(within(found.range, dtype), found.data)
    assert isinstance(expr, Op)
    try:
        kept: _Reach = expr._reach
    except AttributeError:
        kept = _reach_of_op(expr)
        object.__setattr__(expr, "_reach", kept)
    return kept


def _reach_of_op(expr: Op) -> _Reach:
    args = expr.args[1:] if expr.name == "select" else expr.args
    if not expr.dtype.is_integer or not all(arg.dtype.is_integer for arg in args):
        return _Reach(range_of(expr.dtype))
    found = [_reach(arg) for arg in args]
    data = any(one.data for one in found)
    ranges = [one.range if one.data or not data else _place(one.range) for one in found]
    if expr.name == "select":
        return _Reach((min(low for low, _ in ranges), max(high for _, high in ranges)), data)
    whole = unwrapped_range(expr.name, ranges, expr.dtype)
    if not data and expr.dtype == i64 and whole[0] < whole[1] and max(map(abs, whole)) < _LARGEST_STRIDE * INDEX[1]:
        return _Reach(whole, False)
    fitting = within(whole, expr.dtype)
    return _Reach(fitting, data or fitting != whole, expr.dtype == i64 and fitting != whole)


def _place(found: Interval) -> Interval:
    """The range of an index beside data. Ranges of indices alone are far too wide where strides are long."""
    return max(found[0], -_FARTHEST), min(found[1], _FARTHEST)
