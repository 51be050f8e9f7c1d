"""Bits and powers of integers, which the language has no operators for: made of quotients, sums and products that wrap."""

from __future__ import annotations

from ...tensor.build import compute, literal, select
from ...tensor.dtype import Kind, i64, u64
from ...tensor.expr import Expr
from ...tensor.program import Tensor
from .elementwise import mapped
from .function import function
from .operands import at, broadcast_shape

_LEAST = {8: -(2**7), 16: -(2**15), 32: -(2**31), 64: -(2**63)}


def bitwise(name: str, x: Tensor, y: Tensor) -> Tensor:
    """and, or, xor of integers, bit by bit."""
    return mapped(lambda a, b: _of_bits(name, a, b), x, y)


def _of_bits(name: str, a: Expr, b: Expr) -> Expr:
    """The sum of a power of two for each bit that is set; the highest one of signed numbers counts negative."""
    dtype, total = a.dtype, None
    signed = dtype.kind is Kind.SIGNED
    for place in range(dtype.bits - signed):
        left, right = (_bit(one, place) for one in (a, b))
        found = {"and": left & right, "or": left | right, "xor": left.not_equal(right)}[name]
        term = select(found, literal(2**place, dtype), literal(0, dtype))
        total = term if total is None else total + term
    assert total is not None
    if signed:
        found = {"and": (a < 0) & (b < 0), "or": (a < 0) | (b < 0), "xor": (a < 0).not_equal(b < 0)}[name]
        total = total + select(found, literal(_LEAST[dtype.bits], dtype), literal(0, dtype))
    return total


def _bit(value: Expr, place: int) -> Expr:
    high = value if place == 0 else value // 2**place
    return (high % 2).not_equal(0)


def bits_turned(x: Tensor) -> Tensor:
    """Each bit turned: -x - 1, of bool its opposite, of unsigned integers what is missing to the greatest."""
    if x.dtype.name == "bool":
        return mapped(lambda a: ~a, x)
    if x.dtype.kind is Kind.UNSIGNED:
        return mapped(lambda a: literal(2**a.dtype.bits - 1, a.dtype) - a, x)
    return mapped(lambda a: -a - 1, x)


@function
def shifted(x: Tensor, by: Tensor, left: bool) -> Tensor:
    """x times 2^by, or divided by it and rounded down; where all bits leave, what those that come in say."""
    shape, dtype = broadcast_shape(x.shape, by.shape), x.dtype
    inside = u64 if dtype.kind is Kind.UNSIGNED else i64

    def element(*i: Expr) -> Expr:
        value, count = at(x, i).cast(inside), at(by, i).cast(i64)
        found = literal(0, inside) if left or inside == u64 else select(value < 0, literal(-1, i64), 0)
        for places in range(dtype.bits if left else dtype.bits - (dtype == i64)):
            factor = -(2**63) if (places, inside) == (63, i64) else 2**places  # which is as good: products wrap
            moved = value * factor if left else value // factor
            found = select(count.equal(places), moved, found)
        return found.cast(dtype)

    return compute(shape, element)


def integer_power(x: Tensor, exponent: Tensor) -> Tensor:
    """x^exponent of integers, for exponents of 0 to 63; 0 for negative ones."""

    def body(a: Expr, e: Expr) -> Expr:
        square, total = a, literal(1, a.dtype)
        for place in range(6):
            total = total * select(_bit(e, place), square, literal(1, a.dtype))
            square = square * square
        return select(e < 0, literal(0, a.dtype), total)

    return mapped(body, x, exponent, dtype=x.dtype)
