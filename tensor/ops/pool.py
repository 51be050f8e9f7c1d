"""Pooling: the greatest or the mean element of each window of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...common.errors import ArgumentError
from .. import build
from ..build import compute
from ..expr import Expr, Read
from ..functions import Reduction
from ..indices.affine import simplify
from ..limits import WINDOWS
from ..precision import narrowed, wide
from ..program import Program, Tensor
from ..stage_edits import identity_of
from .arguments import Offsets, Size, Sizes, few, per_dimension
from .operator import Operands, floats, operator
from .window import OFFSETS, POSITIONS, Window, all_of, channels_first


@operator
def max_pool1d(
    n: Size, c: Size, w: Size, kernel: Sizes = 2, stride: Sizes | None = None, padding: Offsets = 0, dilation: Sizes = 1,
    layout: str = "ncw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p] = max over r of X[n, c, p * stride + r * dilation - padding]: see max_pool2d. Layouts: ncw and nwc."""
    window = _window("max_pool1d", (w,), kernel, stride, padding, dilation)
    return _max_pool("max_pool1d", Operands(dtype, constants), n, c, window, layout)


@operator
def max_pool2d(
    n: Size, c: Size, h: Size, w: Size, kernel: Sizes = 2, stride: Sizes | None = None, padding: Offsets = 0,
    dilation: Sizes = 1, layout: str = "nchw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p, q] = max over r, s of X[n, c, p * stride + r * dilation - padding, ...]; what lies outside does not count.

    X is [n, c, h, w], or [n, h, w, c] with layout "nhwc", and so is y. `stride` is that of the kernel unless given.
    Errors: ArgumentError for a window larger than the padded image, or padding of more than half the kernel.
    """
    window = _window("max_pool2d", (h, w), kernel, stride, padding, dilation)
    return _max_pool("max_pool2d", Operands(dtype, constants), n, c, window, layout)


@operator
def max_pool3d(
    n: Size, c: Size, d: Size, h: Size, w: Size, kernel: Sizes = 2, stride: Sizes | None = None, padding: Offsets = 0,
    dilation: Sizes = 1, layout: str = "ncdhw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p, q, u] = max over r, s, t of X[n, c, p * stride + r * dilation - padding, ...]: see max_pool2d.

    Layouts: ncdhw and ndhwc.
    """
    window = _window("max_pool3d", (d, h, w), kernel, stride, padding, dilation)
    return _max_pool("max_pool3d", Operands(dtype, constants), n, c, window, layout)


@operator
def avg_pool1d(
    n: Size, c: Size, w: Size, kernel: Sizes = 2, stride: Sizes | None = None, padding: Offsets = 0,
    count_padding: bool = True, layout: str = "ncw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p] = mean over r of X[n, c, p * stride + r - padding]: see avg_pool2d. Layouts: ncw and nwc."""
    window = _window("avg_pool1d", (w,), kernel, stride, padding)
    return _avg_pool("avg_pool1d", floats("avg_pool1d", dtype, constants), n, c, window, count_padding, layout)


@operator
def avg_pool2d(
    n: Size, c: Size, h: Size, w: Size, kernel: Sizes = 2, stride: Sizes | None = None, padding: Offsets = 0,
    count_padding: bool = True, layout: str = "nchw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p, q] = mean over r, s of X[n, c, p * stride + r - padding, ...], zeros around.

    Padding counts as elements of the window, unless `count_padding` is false. X is [n, c, h, w], or [n, h, w, c] with
    layout "nhwc", and so is y. `stride` is that of the kernel unless given. Floats only.
    Errors: ArgumentError for a window larger than the padded image, or padding of more than half the kernel.
    """
    window = _window("avg_pool2d", (h, w), kernel, stride, padding)
    return _avg_pool("avg_pool2d", floats("avg_pool2d", dtype, constants), n, c, window, count_padding, layout)


@operator
def avg_pool3d(
    n: Size, c: Size, d: Size, h: Size, w: Size, kernel: Sizes = 2, stride: Sizes | None = None, padding: Offsets = 0,
    count_padding: bool = True, layout: str = "ncdhw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p, q, u] = mean over r, s, t of X[n, c, p * stride + r - padding, ...]: see avg_pool2d. Layouts: ncdhw, ndhwc."""
    window = _window("avg_pool3d", (d, h, w), kernel, stride, padding)
    return _avg_pool("avg_pool3d", floats("avg_pool3d", dtype, constants), n, c, window, count_padding, layout)


@operator
def global_max_pool2d(
    n: Size, c: Size, h: Size, w: Size, layout: str = "nchw", dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """y[n, c] = max over h, w of X[n, c, h, w], or of X[n, h, w, c] with layout "nhwc"."""
    return _global("global_max_pool2d", Operands(dtype, constants), n, c, (h, w), layout, "max")


@operator
def global_avg_pool2d(
    n: Size, c: Size, h: Size, w: Size, layout: str = "nchw", dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """y[n, c] = mean over h, w of X[n, c, h, w], or of X[n, h, w, c] with layout "nhwc". Floats only."""
    name = "global_avg_pool2d"
    return _global(name, floats(name, dtype, constants), n, c, (h, w), layout, "sum")


@operator
def adaptive_max_pool2d(
    n: Size, c: Size, h: Size, w: Size, to: Sizes, layout: str = "nchw", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p, q] = max of X[n, c] over rows p * h // to .. ceil((p + 1) * h / to) - 1, and columns likewise.

    `to` is the size of the result, one number or two. Layouts: nchw and nhwc.
    """
    operand = Operands(dtype, constants)
    return operand.program(_adaptive("adaptive_max_pool2d", operand, n, c, (h, w), to, layout, "max"))


@operator
def adaptive_avg_pool2d(
    n: Size, c: Size, h: Size, w: Size, to: Sizes, layout: str = "nchw", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, c, p, q] = mean of X[n, c] over rows p * h // to .. ceil((p + 1) * h / to) - 1, and columns likewise.

    `to` is the size of the result, one number or two. Layouts: nchw and nhwc. Floats only.
    """
    name = "adaptive_avg_pool2d"
    operand = floats(name, dtype, constants)
    sums = _adaptive(name, operand, n, c, (h, w), to, layout, "sum")
    return operand.program(narrowed(adapted_mean(sums, (h, w), channels_first(name, layout, 2)), operand.dtype))


def adapted_mean(sums: Tensor, sizes: Sequence[int], first: bool = True) -> Tensor:
    """Makes means of the sums of `adapted` over an image of `sizes`."""
    counts = _positions_of(sums.shape, first)

    def mean(*i: Expr) -> Expr:
        lengths = [_end(p, s, t) - _start(p, s, t) for p, s, t in zip(_positions(i, first), sizes, counts, strict=True)]
        return sums[i] / simplify(prod(lengths[1:], start=lengths[0])).cast(sums.dtype)

    return compute(sums.shape, mean, name="y", axes=_names(len(counts), first))


def _window(
    name: str, sizes: tuple[int, ...], kernel: Sizes, stride: Sizes | None, padding: Offsets, dilation: Sizes = 1
) -> Window:
    window = Window.of(name, sizes, kernel, kernel if stride is None else stride, padding, dilation)
    if any(2 * p > k for p, k in zip(window.padding, window.kernel, strict=True)):
        raise ArgumentError(f"padding of {name} is more than half the kernel", found=f"{padding} of {kernel}")
    return window


def _max_pool(name: str, operand: Operands, n: int, c: int, window: Window, layout: str) -> Program:
    first = channels_first(name, layout, len(window.sizes))
    return operand.program(_pooled(operand, n, c, window, first, "max"))


def _avg_pool(
    name: str, operand: Operands, n: int, c: int, window: Window, count_padding: bool, layout: str
) -> Program:
    first = channels_first(name, layout, len(window.sizes))
    sums = _pooled(operand, n, c, window, first, "sum")
    return operand.program(narrowed(pooled_mean(sums, window, count_padding, first), operand.dtype))


def pooled_mean(sums: Tensor, window: Window, count_padding: bool, first: bool = True) -> Tensor:
    """Makes means of the sums of `pooled`. What lies behind the padding never counts."""
    whole = all(b is None or b <= p for b, p in zip(window.behind or [None], window.padding, strict=False))

    def mean(*i: Expr) -> Expr:
        if count_padding and whole:
            return sums[i] / float(prod(window.kernel))
        lengths = []
        for d, position in enumerate(_positions(i, first)):
            start = position * window.stride[d] - window.padding[d]
            around = window.padding[d] if count_padding else 0
            end = build.minimum(start + window.kernel[d], window.sizes[d] + around)
            lengths.append(simplify(end - (start if count_padding else build.maximum(start, 0))))
        return sums[i] / prod(lengths[1:], start=lengths[0]).cast(sums.dtype)

    return compute(sums.shape, mean, name="y", axes=_names(len(window.sizes), first))


def _global(
    name: str, operand: Operands, n: int, c: int, sizes: tuple[int, int], layout: str, combiner: str
) -> Program:
    first = channels_first(name, layout, 2)
    x = operand("X", *((n, c, *sizes) if first else (n, *sizes, c)))
    offsets = [build.reduce_axis(size, axis) for size, axis in zip(sizes, OFFSETS, strict=False)]

    def element(n: Expr, c: Expr) -> Reduction:
        return _combined(combiner, _at(x, (n, c), offsets, first), offsets)

    if combiner == "max":
        return operand.program(compute((n, c), element, name="y"))
    sums = compute((n, c), element, name="sums")
    y = compute((n, c), lambda n, c: sums[n, c] / float(prod(sizes)), name="y")
    return operand.program(narrowed(y, operand.dtype))


def _pooled(operand: Operands, n: int, c: int, window: Window, first: bool, combiner: str) -> Tensor:
    """Windows of a new operand X combined."""
    return pooled(operand("X", *((n, c, *window.sizes) if first else (n, *window.sizes, c))), window, combiner, first)


def pooled(x: Tensor, window: Window, combiner: str, first: bool = True) -> Tensor:
    """Windows of x combined; sums are wide."""
    n, c = x.shape[0], x.shape[1 if first else -1]
    offsets = window.axes()

    def element(*i: Expr) -> Reduction:
        places = window.places(_positions(i, first), offsets)
        value: Expr = _at(x, i, places, first)
        guards = window.inside(places)
        if guards:
            value = build.select(all_of(guards), value, identity_of(combiner, value))
        return _combined(combiner, value, offsets)

    shape = (n, c, *window.counts) if first else (n, *window.counts, c)
    name = "sums" if combiner == "sum" else "y"
    return compute(shape, element, name=name, axes=_names(len(window.sizes), first))


def _adaptive(
    name: str, operand: Operands, n: int, c: int, sizes: tuple[int, int], to: Sizes, layout: str, combiner: str
) -> Tensor:
    first = channels_first(name, layout, 2)
    counts = per_dimension(name, "to", to, 2)
    few(name, "to", max(counts), WINDOWS)
    return adapted(operand("X", *((n, c, *sizes) if first else (n, *sizes, c))), counts, combiner, first)


def adapted(x: Tensor, counts: Sequence[int], combiner: str, first: bool = True) -> Tensor:
    """x combined over `counts` windows along each dimension, which cover it as evenly as they can; sums are wide."""
    n, c, sizes = x.shape[0], x.shape[1 if first else -1], _positions_of(x.shape, first)
    ranges = [
        [(p * size // count, -(-(p + 1) * size // count)) for p in range(count)]
        for size, count in zip(sizes, counts, strict=True)
    ]
    longest = [max(end - start for start, end in found) for found in ranges]
    offsets = [build.reduce_axis(k, name) for k, name in zip(longest, OFFSETS, strict=False)]

    def element(*i: Expr) -> Reduction:
        places, guards = [], []
        for d, position in enumerate(_positions(i, first)):
            places.append(simplify(_start(position, sizes[d], counts[d]) + offsets[d]))
            if any(end - start < longest[d] for start, end in ranges[d]):
                guards.append(places[d] < _end(position, sizes[d], counts[d]))
        value: Expr = _at(x, i, places, first)
        if guards:
            value = build.select(all_of(guards), value, identity_of(combiner, value))
        return _combined(combiner, value, offsets)

    shape = (n, c, *counts) if first else (n, *counts, c)
    return compute(shape, element, name="sums" if combiner == "sum" else "y", axes=_names(len(sizes), first))


def range_of_adapted(position: Expr, size: int, count: int) -> tuple[Expr, Expr]:
    """Returns the begin and the end of a window of `adapted`."""
    return _start(position, size, count), _end(position, size, count)


def _start(position: Expr, size: int, count: int) -> Expr:
    return simplify(position * size // count)


def _end(position: Expr, size: int, count: int) -> Expr:
    return simplify(((position + 1) * size + count - 1) // count)


def _combined(combiner: str, value: Expr, axes: Sequence[build.ReduceAxis]) -> Reduction:
    combine: Callable[..., Reduction] = build.sum if combiner == "sum" else build.max
    return combine(wide(value) if combiner == "sum" else value, axes)


def _at(x: Tensor, i: Sequence[Expr], places: Sequence[Expr], first: bool) -> Read:
    return x[(i[0], i[1], *places) if first else (i[0], *places, i[-1])]


def _positions(i: Sequence[Expr], first: bool) -> Sequence[Expr]:
    return i[2:] if first else i[1:-1]


def _positions_of(shape: tuple[int, ...], first: bool) -> tuple[int, ...]:
    return shape[2:] if first else shape[1:-1]


def _names(rank: int, first: bool) -> tuple[str, ...]:
    return ("n", "c", *POSITIONS[:rank]) if first else ("n", *POSITIONS[:rank], "c")
