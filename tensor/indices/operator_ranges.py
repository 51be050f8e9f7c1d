"""Ranges of integer operators from those of their operands, and which arithmetic may wrap.

Arithmetic of indices never wraps: axes are short. That of data in i64 may, as in NumPy, and then no law of whole numbers
holds for it: x * 2 // 2 is not x, and min(x + 1, x) may be either.
"""

from __future__ import annotations

from ..dtype import DType, Kind, i64
from ..expr import Cast, Const, Expr, Local, Op, Read, Var

Interval = tuple[int, int]

INDEX: Interval = (-(1 << 40), 1 << 40)  # more elements than any memory holds


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
    """Says whether an i64 operator on data can have a result that i64 does not hold."""
    return _reach(expr)[1]


def _reach(expr: Expr) -> tuple[Interval | None, bool]:
    """(the range of an expression whatever the data are, None where it holds indices alone; whether its operator may wrap)."""
    match expr:
        case Var() | Const():
            return None, False
        case Read(dtype=dtype) | Local(dtype=dtype):
            return range_of(dtype), False
        case Cast(arg=arg, dtype=dtype):
            if not (arg.dtype.is_integer or arg.dtype.name == "bool"):
                return range_of(dtype), False
            found = _reach(arg)[0]
            return None if found is None else within(found, dtype), False
    assert isinstance(expr, Op)
    try:
        kept: tuple[Interval | None, bool] = expr._reach
    except AttributeError:
        kept = _reach_of_op(expr)
        object.__setattr__(expr, "_reach", kept)
    return kept


def _reach_of_op(expr: Op) -> tuple[Interval | None, bool]:
    args = expr.args[1:] if expr.name == "select" else expr.args
    if not expr.dtype.is_integer or not all(arg.dtype.is_integer for arg in args):
        return range_of(expr.dtype), False
    found = [_reach(arg)[0] for arg in args]
    if all(one is None for one in found):
        return None, False
    ranges = [one if one is not None else _index_range(arg) for one, arg in zip(found, args, strict=True)]
    if expr.name == "select":
        return (min(low for low, _ in ranges), max(high for _, high in ranges)), False
    whole = unwrapped_range(expr.name, ranges, expr.dtype)
    fitting = within(whole, expr.dtype)
    return fitting, expr.dtype == i64 and fitting != whole


def _index_range(expr: Expr) -> Interval:
    return (int(expr.value), int(expr.value)) if isinstance(expr, Const) else INDEX
