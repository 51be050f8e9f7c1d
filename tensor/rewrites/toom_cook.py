"""Minimal filtering by interpolation: m outputs of a filter of r taps from m + r - 1 products.

    y = A^T [ (G g) * (B^T d) ]        y[i] = sum[k](d[i + k] g[k]),  i < m, k < r

Data and filter are polynomials that are evaluated at m + r - 2 points and at infinity (Toom, Cook; as filters: Winograd,
Arithmetic Complexity of Computations, 1980). The points decide how errors grow, because their powers and differences become
the coefficients: Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

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


def _polynomial(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients of the product of (x - root), lowest first."""
    found = [Fraction(1)]
    for root in roots:
        found = [up - root * same for up, same in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return tuple(found)
