"""Windows of an image as columns (torch's Unfold), and columns added up where they lie in an image (its Fold)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...tensor import build
from ...tensor.build import compute, literal, reduce_axis, select
from ...tensor.expr import Expr
from ...tensor.indices.affine import simplify
from ...tensor.ops.movement import clamped
from ...tensor.ops.window import all_of
from ...tensor.precision import narrowed, precise
from ...tensor.program import Tensor
from .function import function
from .shape import reshape


@function
def image_to_columns(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], before: Sequence[int],
    after: Sequence[int],
) -> Tensor:  # fmt: skip
    """Columns [n, c * kernel, windows] of an image [n, c, *sizes] with a border of zeros (`before`, `after` each dimension)."""
    sizes, rank = x.shape[2:], len(kernel)
    counts = _counts(sizes, kernel, stride, dilation, before, after)

    def element(*i: Expr) -> Expr:
        taps, windows = i[2 : 2 + rank], i[2 + rank :]
        places = [windows[d] * stride[d] + taps[d] * dilation[d] - before[d] for d in range(rank)]
        guards = [inside for place, size in zip(places, sizes, strict=True) for inside in (place >= 0, place < size)]
        value = x[(*i[:2], *map(clamped, places, sizes))]
        return select(all_of(guards), value, literal(0, value.dtype))

    columns = compute((*x.shape[:2], *kernel, *counts), element, name="columns")
    return reshape(columns, [x.shape[0], x.shape[1] * prod(kernel), prod(counts)])


@function
def columns_to_image(
    x: Tensor, sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
    before: Sequence[int], after: Sequence[int],
) -> Tensor:  # fmt: skip
    """An image [n, c, *sizes] of columns [n, c * kernel, windows]: each element is the sum of what all windows have there.

    `before`, `after`: the border along each dimension, which windows reach into and which is cut off.
    """
    counts = _counts(sizes, kernel, stride, dilation, before, after)
    cube = reshape(x, [x.shape[0], x.shape[1] // prod(kernel), *kernel, *counts])
    over = [reduce_axis(size, f"k{d}") for d, size in enumerate(kernel)]

    def element(*i: Expr) -> build.Reduction:
        guards, places = [], []
        for d, size in enumerate(counts):
            away = simplify(i[2 + d] + before[d] - over[d] * dilation[d])
            place = simplify(away // stride[d])
            guards += [(away % stride[d]).equal(0), away >= 0, place < size]
            places.append(clamped(place, size))
        value = precise(cube[(*i[:2], *over, *places)])
        return build.sum(select(all_of(guards), value, literal(0, value.dtype)), over)

    return narrowed(compute((*cube.shape[:2], *sizes), element, name="sums"), x.dtype)


def _counts(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], before: Sequence[int],
    after: Sequence[int],
) -> list[int]:  # fmt: skip
    """The number of windows along each dimension."""
    return [
        (size + before[d] + after[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1
        for d, size in enumerate(sizes)
    ]
