"""Minimal filtering by interpolation: m outputs of a filter of r taps from m + r - 1 products.

    y = A^T [ (G g) * (B^T d) ]        y[i] = sum[k](d[i + k] g[k]),  i < m, k < r

Data and filter are polynomials that are evaluated at m + r - 2 points and at infinity (Toom, Cook; as filters: Winograd,
Arithmetic Complexity of Computations, 1980). The points decide how errors grow, because their powers and differences become
the coefficients: Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution, 2020.

With steps of two, an output takes some taps from the even numbers of the data and the others from the odd ones, which are two
filters of stride 1 (`strided`). One of a single tap has a product for each output.

Integers have no errors where all coefficients are whole numbers, as in F(2x2, 3x3) with the filter's matrix taken twice:

    4 y = A^T [ (2 G g 2 G^T) * (B^T d B) ] A

Of bytes, transformed data are at most 4 times, transformed filters 9 times as large as these, and fit in halves. Sums of their
products may go round modulo 2^32 on the way, and those of A too: 4 y is right modulo 2^32 whatever happens before, so it is
right where it fits. That is all that the quotient needs. Of stride 2 all coefficients of F(2x2, 3x3) are whole numbers, and
there is no quotient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod

from ...dtype import DType, i16, i32
from ...expr import Expr
from ...indices.operator_ranges import range_of
from ...program import Program, Stage
from ...stage_edits import refuse
from ..word_ranges import range_of_parts

# Outputs of a tile in one direction -> where data and filter are evaluated, beside infinity; by 2 taps, at all but the last. Of
# the points for 4 outputs with as many zeros in the matrices these have the least errors: over the points 0, 1, -1, 2, -2 of
# Lavin and Gray a half in the mean and less than a third at worst (64 channels, uniform data).
POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}

Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, slots=True)
class Filtering:
    """The three matrices, exactly: data B^T[n, n], filter G[n, r], result A^T[m, n]; n = m + r - 1."""

    data: Matrix
    filter: Matrix
    result: Matrix


def toom_cook(points: Sequence[Fraction], outputs: int, taps: int) -> Filtering:
    """The matrices for `outputs` results of a filter with `taps` coefficients; outputs + taps - 2 different points."""
    size = outputs + taps - 1
    if len(set(points)) != size - 1 or len(points) != size - 1:
        raise ValueError(f"{size - 1} different points are needed, not {list(map(str, points))}")
    weights = [prod((p - q for q in points if q != p), start=Fraction(1)) for p in points]
    infinity = tuple(Fraction(int(j == taps - 1)) for j in range(taps))
    filters = (*(tuple(p**j / w for j in range(taps)) for p, w in zip(points, weights, strict=True)), infinity)
    result = tuple((*(p**i for p in points), Fraction(int(i == outputs - 1))) for i in range(outputs))
    data = (*((*_polynomial([q for q in points if q != p]), Fraction(0)) for p in points), _polynomial(points))
    return Filtering(data, filters, result)


def strided(points: Sequence[Fraction], outputs: int, taps: int, stride: int) -> Filtering:
    """The matrices for y[i] = sum[k](d[stride * i + k] g[k]), stride <= taps: phase by phase, each at as many of the points as
    it needs; n = stride * (outputs - 1) + taps."""
    size = stride * (outputs - 1) + taps
    data: list[tuple[Fraction, ...]] = []
    filters: list[tuple[Fraction, ...]] = []
    results: list[tuple[Fraction, ...]] = []
    for phase in range(stride):
        few = len(range(phase, taps, stride))
        found = toom_cook(points[: outputs + few - 2], outputs, few) if few > 1 else _one_tap(outputs)
        data += (_spread(row, phase, stride, size) for row in found.data)
        filters += (_spread(row, phase, stride, taps) for row in found.filter)
        results += zip(*found.result, strict=True)
    return Filtering(tuple(data), tuple(filters), tuple(zip(*results, strict=True)))


def _one_tap(outputs: int) -> Filtering:
    same = tuple(tuple(Fraction(int(i == j)) for j in range(outputs)) for i in range(outputs))
    return Filtering(same, ((Fraction(1),),) * outputs, same)


def _spread(row: tuple[Fraction, ...], phase: int, stride: int, size: int) -> tuple[Fraction, ...]:
    """The numbers of a row at `phase`, `phase + stride`, ...; elsewhere zeros."""
    found = [Fraction(0)] * size
    found[phase : phase + stride * len(row) : stride] = row
    return tuple(found)


def _polynomial(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients of the product of (x - root), lowest first."""
    found = [Fraction(1)]
    for root in roots:
        found = [up - root * same for up, same in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The types of transformed data and filters, and of sums of their products; and what the filter's matrix is multiplied by
    in each direction."""

    parts: DType
    sums: DType
    scale: int = 1


def floats(dtype: DType) -> Numbers:
    """All in one type, fractions and all."""
    return Numbers(dtype, dtype)


def integers(program: Program, stage: Stage, data: Expr, filters: Expr, matrices: Filtering) -> Numbers:
    """Halves, and sums in i32.

    `data` and `filters` are the factors of a term of the stage. Errors: ProgramError where they may be too large.
    """
    fractions = [value for row in matrices.filter for value in row]
    scale = lcm(*(value.denominator for value in fractions))
    most = [max(map(abs, range_of_parts(program, (part,)))) for part in (data, filters)]
    grown = [_growth(matrices.data), _growth(matrices.filter) * scale]
    found = int(max(size * by**2 for size, by in zip(most, grown, strict=True)))
    if found > range_of(i16)[1]:
        raise refuse(stage, f"transformed data or filters are up to {found}", expected="at most 16 bits")
    result = scale**2 * prod(most) * prod(axis.extent for axis in stage.reduction)
    if scale > 1 and result > range_of(i32)[1]:
        raise refuse(stage, f"{scale**2} times the sums are up to {result}", expected="at most 32 bits")
    return Numbers(i16, i32, scale)


def _growth(matrix: Matrix) -> Fraction:
    """The most times by which a transform in one direction makes numbers larger."""
    return max(sum(map(abs, row), Fraction(0)) for row in matrix)
