"""What training asks of pooling: where the greatest element of each window lies, and the gradients of windows.

A gradient is a sum over the windows that hold an element. Along each dimension these are as many as strides fit into the reach
of one window, whatever the image, and each place looks at these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...tensor import build
from ...tensor.build import compute, literal, reduce_axis, select
from ...tensor.dtype import i32, i64
from ...tensor.expr import Expr
from ...tensor.indices.affine import simplify
from ...tensor.ops.pool import adapted_mean, pooled, pooled_mean, range_of_adapted
from ...tensor.ops.window import OFFSETS, Window, all_of
from ...tensor.precision import wide
from ...tensor.program import Tensor
from .convolution import Pairs
from .elementwise import cast
from .function import function
from .pooling import window_of_pool
from .shape import squeeze, unsqueeze

# (index of an element, index of a window) -> what it gives back.
HeldValue = Callable[[Sequence[Expr], tuple[Expr, ...]], Expr]


@function
def max_pool_with_places(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int] | None = None, padding: int | Pairs = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The greatest element of each window, and its number in the image, counted row by row: of equal ones the first."""
    if len(x.shape) == len(kernel) + 1:
        values, places = max_pool_with_places(unsqueeze(x, 0), kernel, stride, padding, dilation, ceil_mode)
        return squeeze(values, 0), squeeze(places, 0)
    window = window_of_pool(x, kernel, stride, padding, dilation, ceil_mode)
    values, offsets = pooled(x, window, "max"), window.axes()
    counted = i32 if prod(window.sizes) < 1 << 31 else i64  # twice the lanes
    nowhere = literal(prod(window.sizes), counted)

    def element(*i: Expr) -> build.Reduction:
        at = window.places(i[2:], offsets)
        value = wide(x[(i[0], i[1], *at)])
        hit = value.equal(wide(values[i])) | ~value.equal(value)  # NaN is greater than all
        found: Expr = select(hit, _number(at, window.sizes).cast(counted), nowhere)
        guards = window.inside(at)
        return build.min(select(all_of(guards), found, nowhere) if guards else found, offsets)

    return values, cast(compute(values.shape, element, name="places"), i64)


@function
def max_pool_gradient(
    gradient: Tensor, x: Tensor, places: Tensor, kernel: Sequence[int], stride: Sequence[int] | None = None,
    padding: int | Pairs = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The gradient of x: that of each window goes to the place of its greatest element."""
    if len(x.shape) == len(kernel) + 1:
        whole = unsqueeze(gradient, 0), unsqueeze(x, 0), unsqueeze(places, 0)
        return squeeze(max_pool_gradient(*whole, kernel, stride, padding, dilation, ceil_mode), 0)
    window = window_of_pool(x, kernel, stride, padding, dilation, ceil_mode)

    def held(i: Sequence[Expr], at: tuple[Expr, ...]) -> Expr:
        return places[at].equal(_number(i[2:], window.sizes).cast(i64))

    return cast(_given_back(gradient, window, held), x.dtype)


@function
def avg_pool_gradient(
    gradient: Tensor, x: Tensor, kernel: Sequence[int], stride: Sequence[int] | None = None, padding: int | Pairs = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
) -> Tensor:  # fmt: skip
    """The gradient of x: each element of a window gets an equal part of that of the window."""
    if len(x.shape) == len(kernel) + 1:
        whole = (unsqueeze(gradient, 0), unsqueeze(x, 0))
        return squeeze(avg_pool_gradient(*whole, kernel, stride, padding, ceil_mode, count_include_pad, divisor), 0)
    window = window_of_pool(x, kernel, stride, padding, 1, ceil_mode)
    wider = compute(gradient.shape, lambda *i: wide(gradient[i]), name="wide")
    if divisor is not None:
        parts = compute(gradient.shape, lambda *i: wider[i] / float(divisor), name="parts")
    else:
        parts = pooled_mean(wider, window, count_include_pad)

    def held(i: Sequence[Expr], at: tuple[Expr, ...]) -> Expr:
        inside: list[Expr] = []
        for d, place in enumerate(i[2:]):
            start = simplify(at[2 + d] * window.stride[d] - window.padding[d])
            inside += [place >= start, place < simplify(start + window.kernel[d])]
        return all_of(inside)

    return cast(_given_back(parts, window, held), x.dtype)


@function
def adaptive_avg_pool_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient of x, of windows that cover the image as evenly as they can."""
    if len(x.shape) == 3:
        return squeeze(adaptive_avg_pool_gradient(unsqueeze(gradient, 0), unsqueeze(x, 0)), 0)
    sizes, counts = x.shape[2:], gradient.shape[2:]
    parts = adapted_mean(compute(gradient.shape, lambda *i: wide(gradient[i]), name="wide"), sizes)
    windows = [reduce_axis(count, name) for count, name in zip(counts, OFFSETS, strict=False)]

    def element(*i: Expr) -> build.Reduction:
        inside: list[Expr] = []
        for place, number, size, count in zip(i[2:], windows, sizes, counts, strict=True):
            start, end = range_of_adapted(number, size, count)
            inside += [place >= start, place < end]
        return build.sum(select(all_of(inside), parts[(i[0], i[1], *windows)], 0.0), windows)

    return cast(compute(x.shape, element, name="gradient"), x.dtype)


def _given_back(gradient: Tensor, window: Window, held: HeldValue) -> Tensor:
    """Sums, for each element of the image, over the windows that hold it; wide."""
    counts = window.counts
    reach = [d * (k - 1) + 1 for d, k in zip(window.dilation, window.kernel, strict=True)]
    around = [-(-r // s) for r, s in zip(reach, window.stride, strict=True)]
    axes = [reduce_axis(min(n, most), name) for n, most, name in zip(counts, around, OFFSETS, strict=False)]

    def element(*i: Expr) -> build.Reduction:
        numbers: list[Expr] = []
        guards: list[Expr] = []
        for place, p, s, n, one in zip(i[2:], window.padding, window.stride, counts, axes, strict=True):
            if one.extent == n:  # there are few windows, and all are looked at
                numbers.append(one)
                continue
            number = simplify((place + p) // s - one)
            numbers.append(number)
            guards += [number >= 0, number < n]
        at = (i[0], i[1], *numbers)
        value = select(held(i, at), wide(gradient[at]), 0.0)
        return build.sum(select(all_of(guards), value, 0.0) if guards else value, axes)

    shape = (*gradient.shape[:2], *window.sizes)
    return compute(shape, element, name="gradient")


def _number(places: Sequence[Expr], sizes: Sequence[int]) -> Expr:
    """The number of a place in an image, counted row by row."""
    total: Expr = places[0]
    for place, size in zip(places[1:], sizes[1:], strict=True):
        total = total * size + place
    return simplify(total)
