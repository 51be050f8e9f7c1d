"""Interpolation of images [n, c, ...]: nearest and linear in one to three dimensions, cubic in two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from ...tensor.build import compute, maximum, minimum
from ...tensor.dtype import DType, accumulator
from ...tensor.expr import Expr
from ...tensor.indices.affine import simplify
from ...tensor.ops.movement import clamped
from ...tensor.ops.resize import between
from ...tensor.precision import precise
from ...tensor.program import Tensor
from .function import function

Scales = Sequence[float | None]
Tap = tuple[Expr, Expr]  # an element along a dimension, and its weight


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
    factors, inside = _factors(x.shape[2:], to, None if align_corners else scales), accumulator(x.dtype)

    def taps(d: int, p: Expr) -> list[Tap]:
        before, behind, far = _between(p, x.shape[2 + d], to[d], align_corners, factors[d], inside)
        return [(before, 1 - far), (behind, far)]

    return _resized(x, to, taps)


def _between(p: Expr, size: int, count: int, align: bool, factor: Fraction, inside: DType) -> tuple[Expr, Expr, Expr]:
    """(element before the place, element behind it, how far the place is towards the second)"""
    if align or factor == Fraction(size, count):
        return between(p, size, count, align, inside)
    divisor = 2 * factor.denominator
    place = maximum(simplify((2 * p + 1) * factor.numerator - factor.denominator), 0)
    before = minimum(simplify(place // divisor), size - 1)
    return before, minimum(before + 1, size - 1), (place % divisor).cast(inside) / float(divisor)


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

    def taps(d: int, p: Expr) -> list[Tap]:
        if align_corners:
            scale = Fraction(sizes[d] - 1, to[d] - 1) if to[d] > 1 else Fraction(0)
            top, divisor = simplify(p * scale.numerator), scale.denominator
        else:
            top = simplify((2 * p + 1) * factors[d].numerator - factors[d].denominator)
            divisor = 2 * factors[d].denominator
        before = simplify(top // divisor)
        factors_of = weights((top % divisor).cast(inside) / float(divisor))
        return [(_near(before, offset, sizes[d]), factor) for offset, factor in enumerate(factors_of)]

    return _resized(x, to, taps)


def _resized(x: Tensor, to: Sequence[int], taps: Callable[[int, Expr], list[Tap]]) -> Tensor:
    """Sums of weighted elements along each dimension, dimension after dimension. `taps`: of a dimension and a place of it."""
    made = x
    for dimensions in _passes(x.shape[2:], to):
        made = _along(made, {d: to[d] for d in dimensions}, taps)
    return compute(made.shape, lambda *i: made[i].cast(x.dtype)) if made.dtype != x.dtype else made


def _passes(sizes: Sequence[int], to: Sequence[int]) -> list[list[int]]:
    """Dimensions that are done together, the last ones first, so that rows are long before they are mixed as a whole. One that
    shrinks to a half or less is done with those behind it: most of what is computed for it would be thrown away."""
    found: list[list[int]] = []
    for d in reversed(range(len(sizes))):
        if found and sizes[d] >= 2 * to[d]:
            found[-1].insert(0, d)
        else:
            found.append([d])
    return found


def _along(x: Tensor, counts: dict[int, int], taps: Callable[[int, Expr], list[Tap]]) -> Tensor:
    """x with as many points along some of its dimensions, each a weighted sum."""

    def element(*i: Expr) -> Expr:
        places = {d: taps(d, i[2 + d]) for d in counts}

        def summed(d: int, chosen: list[Expr]) -> Expr:
            if d == len(x.shape) - 2:
                return precise(x[(*i[:2], *chosen)])
            if d not in places:
                return summed(d + 1, [*chosen, i[2 + d]])
            first, *others = (summed(d + 1, [*chosen, place]) * weight for place, weight in places[d])
            return sum(others, first)

        return summed(0, [])

    shape = [counts.get(d, size) for d, size in enumerate(x.shape[2:])]
    return compute((*x.shape[:2], *shape), element)


def _near(before: Expr, offset: int, size: int) -> Expr:
    return clamped(simplify(before + (offset - 1)), size)


def _factors(sizes: Sequence[int], to: Sequence[int], scales: Scales | None) -> list[Fraction]:
    """Says how far places of x lie apart, for each dimension."""
    given = scales or [None] * len(sizes)
    return [
        Fraction(size, count) if scale is None else 1 / Fraction(scale).limit_denominator(1 << 20)
        for size, count, scale in zip(sizes, to, given, strict=True)
    ]
