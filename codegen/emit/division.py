"""Quotients and remainders of integers, rounded down as NumPy has them: a divisor of 0 gives 0, the least integer // -1 wraps.

A divisor that is known costs no division: a power of two is a shift or a mask, and LLVM writes an unsigned quotient by another
number as a product with its reciprocal. Numbers below zero are mirrored for that: with y = -1 - x, x // d is -1 - y // d.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tensor.dtype import Kind
from .types import Value, literal

if TYPE_CHECKING:
    from .values import Arithmetic

QUOTIENTS = ("floordiv", "mod")


def divided(of: Arithmetic, name: str, left: Value, right: Value) -> Value:
    """left // right or left % right. The operands may be scalars and vectors mixed."""
    divisor = _known(right)
    _, (left, right) = of.together(left, right)
    if divisor <= 0:
        return _by_any(of, name, left, right)
    if divisor & (divisor - 1) == 0:
        return _by_power(of, name, left, divisor)
    quotient = _by_known(of, left, right)
    if name == "floordiv":
        return quotient
    return of.apply("sub", [left, of.apply("mul", [quotient, right], left.dtype)], left.dtype)


def _known(value: Value) -> int:
    """A positive literal; 0 for all else."""
    if not value.is_literal or value.lanes:
        return 0
    number, dtype = int(value.text), value.dtype
    return number & ((1 << dtype.bits) - 1) if dtype.kind is Kind.UNSIGNED else max(number, 0)


def _write(of: Arithmetic, operation: str, left: Value, right: Value) -> Value:
    text = of.text.compute(f"{operation} {left.typed}, {right.text}", left.text, right.text)
    return Value(text, left.dtype, left.lanes)


def _constant(of: Arithmetic, number: int, like: Value) -> Value:
    return of.spread(Value(literal(number, like.dtype), like.dtype), like.lanes)


def _by_power(of: Arithmetic, name: str, left: Value, divisor: int) -> Value:
    if name == "mod":
        return _write(of, "and", left, _constant(of, divisor - 1, left))
    shift = "lshr" if left.dtype.kind is Kind.UNSIGNED else "ashr"
    return _write(of, shift, left, _constant(of, divisor.bit_length() - 1, left)) if divisor > 1 else left


def _by_known(of: Arithmetic, left: Value, right: Value) -> Value:
    if left.dtype.kind is Kind.UNSIGNED:
        return _write(of, "udiv", left, right)
    sign = _write(of, "ashr", left, _constant(of, left.dtype.bits - 1, left))
    return _write(of, "xor", _write(of, "udiv", _write(of, "xor", left, sign), right), sign)


def _by_any(of: Arithmetic, name: str, left: Value, right: Value) -> Value:
    dtype = left.dtype
    zero, one = (_constant(of, number, left) for number in (0, 1))
    is_zero = of.apply("eq", [right, zero], dtype)
    if dtype.kind is Kind.UNSIGNED:
        divisor = of.select(is_zero, one, right)
        return of.select(is_zero, zero, _write(of, "udiv" if name == "floordiv" else "urem", left, divisor))
    minus_one = _constant(of, -1, left)
    is_minus_one = of.apply("eq", [right, minus_one], dtype)
    divisor = of.select(of.apply("or", [is_zero, is_minus_one], dtype), one, right)
    quotient = _write(of, "sdiv", left, divisor)
    rest = _write(of, "sub", left, _write(of, "mul", quotient, divisor))
    signs = _write(of, "xor", rest, divisor)
    low = of.both(of.apply("ne", [rest, zero], dtype), of.apply("lt", [signs, zero], dtype))
    assert low is not None
    if name == "mod":
        floored = of.select(low, _write(of, "add", rest, divisor), rest)
    else:
        floored = of.select(low, _write(of, "add", quotient, minus_one), quotient)
        floored = of.select(is_minus_one, of.apply("neg", [left], dtype), floored)
    return of.select(is_zero, zero, floored)
