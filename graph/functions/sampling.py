"""Elements of images at places that are tensors (grid_sample)."""

from __future__ import annotations

from ...tensor.build import absolute, compute, floor, literal, maximum, minimum, round, select
from ...tensor.dtype import i64
from ...tensor.expr import Expr
from ...tensor.ops.movement import clamped
from ...tensor.precision import precise
from ...tensor.program import Tensor
from .function import function


@function
def grid_sample(x: Tensor, grid: Tensor, nearest: bool, padding: str, align_corners: bool) -> Tensor:
    """x[n, c] at the places grid[n, p, q] = (column, row), of which -1 and 1 are the ends of the image: the four elements
    around one, weighted by their nearness, or the nearest. Outside is 0 ("zeros"), the next element ("border"), or x mirrored
    ("reflection")."""
    n, c, h, w = x.shape

    def element(*i: Expr) -> Expr:
        column, row = (
            _place(precise(grid[i[0], i[2], i[3], axis]), size, padding, align_corners)
            for axis, size in ((0, w), (1, h))
        )

        def at(q: Expr, p: Expr) -> Expr:
            value = precise(x[i[0], i[1], clamped(p.cast(i64), h), clamped(q.cast(i64), w)]).cast(q.dtype)
            inside = (q >= 0) & (q < w) & (p >= 0) & (p < h)
            return select(inside, value, literal(0, value.dtype))

        if nearest:
            return at(round(column), round(row)).cast(x.dtype)
        left, top = floor(column), floor(row)
        across, down = column - left, row - top
        upper = at(left, top) * (1 - across) + at(left + 1, top) * across
        lower = at(left, top + 1) * (1 - across) + at(left + 1, top + 1) * across
        return (upper * (1 - down) + lower * down).cast(x.dtype)

    return compute((n, c, *grid.shape[1:3]), element)


def _place(value: Expr, size: int, padding: str, align: bool) -> Expr:
    """Says where a number of [-1, 1] lies in an image, and where what lies outside is taken from."""
    place = (value + 1) * (0.5 * (size - 1)) if align else ((value + 1) * float(size) - 1) * 0.5
    if padding == "reflection":
        place = _reflected(place, 0 if align else -0.5, size - 1 if align else float(size))
    if padding == "zeros":
        return place
    return minimum(maximum(place, 0), size - 1)


def _reflected(place: Expr, low: float, span: float) -> Expr:
    """Mirrored at `low` and at `low` + `span` as often as needed."""
    if span == 0:
        return literal(0, place.dtype)
    away = absolute(place - low)
    times = floor(away / span)
    rest = away - times * span
    is_even = (times - floor(times * 0.5) * 2).equal(0)
    return select(is_even, rest, span - rest) + low
