"""Interpolation of images [n, c, ...]: nearest and linear in one to three dimensions, cubic in two."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

from ...tensor.build import compute, literal, maximum, minimum
from ...tensor.dtype import DType, accumulator
from ...tensor.expr import Expr
from ...tensor.indices.affine import simplify
from ...tensor.ops.movement import clamped
from ...tensor.ops.resize import between
from ...tensor.precision import precise
from ...tensor.program import Tensor
from .function import function

Scales = Sequence[float | None]


@function
def nearest(x: Tensor, to: Sequence[int], scales: Scales | None = None, exact: bool = False) -> Tensor:
    """The element at a place rounded down: p * size // to, or (p + 1/2) * size / to if `exact`. `scales` stand for to / size
    where they are given."""
    sizes = x.shape[2:]
    factors = _factors(sizes, to, scales)

    def element(*i: Expr) -> Expr:
        places = []
        for p, size, factor in zip(i[2:], sizes, factors, strict=True):
            numerator = (2 * p + 1) * factor.numerator if exact else p * factor.numerator
            place = simplify(numerator // (factor.denominator * (2 if exact else 1)))
            places.append(minimum(place, size - 1) if scales else place)
        return x[(*i[:2], *places)]

    return compute((*x.shape[:2], *to), element)


@function
def linear(x: Tensor, to: Sequence[int], align_corners: bool = False, scales: Scales | None = None) -> Tensor:
    """The elements around a place, weighted by their nearness. The place is max((p + 1/2) * size / to - 1/2,
    0), or p * (size - 1) / (to - 1) with `align_corners`."""
    sizes, inside = x.shape[2:], accumulator(x.dtype)
    factors = _factors(sizes, to, None if align_corners else scales)

    def element(*i: Expr) -> Expr:
        found = [
            _between(p, size, count, align_corners, factor, inside)
            for p, size, count, factor in zip(i[2:], sizes, to, factors, strict=True)
        ]
        return _weighted(x, i[:2], found, []).cast(x.dtype)

    return compute((*x.shape[:2], *to), element)


def _between(p: Expr, size: int, count: int, align: bool, factor: Fraction, inside: DType) -> tuple[Expr, Expr, Expr]:
    """(element before the place, element behind it, how far the place is towards the second)"""
    if align or factor == Fraction(size, count):
        return between(p, size, count, align, inside)
    divisor = 2 * factor.denominator
    place = maximum(simplify((2 * p + 1) * factor.numerator - factor.denominator), 0)
    before = minimum(simplify(place // divisor), size - 1)
    return before, minimum(before + 1, size - 1), (place % divisor).cast(inside) / float(divisor)


def _weighted(x: Tensor, outer: Sequence[Expr], rest: list[tuple[Expr, Expr, Expr]], chosen: list[Expr]) -> Expr:
    if not rest:
        return precise(x[(*outer, *chosen)])
    before, behind, far = rest[0]
    first = _weighted(x, outer, rest[1:], [*chosen, before])
    return first * (1 - far) + _weighted(x, outer, rest[1:], [*chosen, behind]) * far


@function
def cubic(x: Tensor, to: Sequence[int], align_corners: bool = False, scales: Scales | None = None) -> Tensor:
    """Cubic convolution (Keys, 1981) with the parameter -3/4, like torch's bicubic: four elements along each dimension."""
    sizes, inside = x.shape[2:], accumulator(x.dtype)
    factors = _factors(sizes, to, None if align_corners else scales)

    def weights(t: Expr) -> list[Expr]:
        a = -0.75
        far, u = t + 1, 1 - t
        beyond = 2 - t
        return [
            ((far * a - 5 * a) * far + 8 * a) * far - 4 * a, ((t * (a + 2)) - (a + 3)) * t * t + 1,
            ((u * (a + 2)) - (a + 3)) * u * u + 1, ((beyond * a - 5 * a) * beyond + 8 * a) * beyond - 4 * a,
        ]  # fmt: skip

    def around(p: Expr, size: int, count: int, factor: Fraction) -> tuple[Expr, list[Expr]]:
        if align_corners:
            scale = Fraction(size - 1, count - 1) if count > 1 else Fraction(0)
            top, divisor = simplify(p * scale.numerator), scale.denominator
        else:
            top = simplify((2 * p + 1) * factor.numerator - factor.denominator)
            divisor = 2 * factor.denominator
        return simplify(top // divisor), weights((top % divisor).cast(inside) / float(divisor))

    def element(*i: Expr) -> Expr:
        found = [around(p, s, n, f) for p, s, n, f in zip(i[2:], sizes, to, factors, strict=True)]
        total: Expr = literal(0, inside)
        for offsets in itertools.product(range(4), repeat=len(sizes)):
            value: Expr = precise(
                x[(*i[:2], *(_near(b, o, s) for (b, _), o, s in zip(found, offsets, sizes, strict=True)))]
            )
            for (_, factors_of), offset in zip(found, offsets, strict=True):
                value = value * factors_of[offset]
            total = total + value
        return total.cast(x.dtype)

    return compute((*x.shape[:2], *to), element)


def _near(before: Expr, offset: int, size: int) -> Expr:
    return clamped(simplify(before + (offset - 1)), size)


def _factors(sizes: Sequence[int], to: Sequence[int], scales: Scales | None) -> list[Fraction]:
    """Says how far places of x lie apart, for each dimension."""
    given = scales or [None] * len(sizes)
    return [
        Fraction(size, count) if scale is None else 1 / Fraction(scale).limit_denominator(1 << 20)
        for size, count, scale in zip(sizes, to, given, strict=True)
    ]
