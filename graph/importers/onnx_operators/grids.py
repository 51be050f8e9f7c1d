"""ONNX's functions that read images at places that are data, or write to such."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod

from ....tensor import build
from ....tensor.build import absolute, compute, floor, literal, maximum, minimum, reduce_axis, select
from ....tensor.dtype import i64
from ....tensor.expr import Expr
from ....tensor.ops.movement import clamped
from ....tensor.ops.window import all_of
from ....tensor.precision import precise
from ....tensor.program import Tensor
from ...functions import columns
from ...functions.function import NotCovered, function
from ...functions.shape import reshape
from .registry import Node, onnx

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@onnx("GridSample")
def grid_sample(node: Node) -> Tensor:
    """x at the places of a grid in [-1, 1]: the nearest element, or those around weighted"""
    mode = node.text("mode", "linear")
    align, padding = bool(node.integer("align_corners")), node.text("padding_mode", "zeros")
    return _sampled(node.tensor(0), node.tensor(1), _MODES.get(mode, mode), padding, align)


@function
def _sampled(x: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    sizes, rank = x.shape[2:], len(x.shape) - 2
    if mode not in ("nearest", "linear", "cubic") or (mode == "cubic" and rank > 2):
        raise NotCovered(f"the mode {mode} in {rank} dimensions")
    ends = [(0.0, n - 1.0) if align else (-0.5, n - 0.5) for n in sizes]

    def place(*i: Expr) -> Expr:
        """The coordinate of the axis i[0], which the grid has from the last one on."""
        found: Expr | None = None
        for d, size in enumerate(sizes):
            v = precise(grid[(*i[1:], rank - 1 - d)])
            v = (v + 1) / 2.0 * float(size - 1) if align else ((v + 1) * float(size) - 1) / 2.0
            v = build.round(v) if mode == "nearest" else v
            low, high = ends[d]
            inner = minimum(maximum(v, 0.0), size - 1.0) if padding == "border" else v
            inner = _reflected(v, low, high) if padding == "reflection" else inner
            v = select((v < low) | (v > high), inner, v)
            found = v if found is None else select(i[0].equal(d), v, found)
        assert found is not None
        return found

    places = compute((rank, *grid.shape[:-1]), place, name="places")

    def pixel(n: Expr, c: Expr, at: Sequence[Expr]) -> Expr:
        """The element at whole coordinates, which may lie outside."""
        inside = [(one >= 0) & (one <= size - 1.0) for one, size in zip(at, sizes, strict=True)]
        if padding == "reflection":
            at = [_reflected(one, *end) for one, end in zip(at, ends, strict=True)]
        index = [clamped(minimum(maximum(v, -1.0), float(s)).cast(i64), s) for v, s in zip(at, sizes, strict=True)]
        value = precise(x[(n, c, *index)])
        return select(all_of(inside), value, literal(0, value.dtype)) if padding == "zeros" else value

    def element(*i: Expr) -> Expr:
        at = [places[(d, i[0], *i[2:])] for d in range(rank)]
        if mode == "nearest":
            return pixel(i[0], i[1], at).cast(x.dtype)
        lows = [floor(one) for one in at]
        weights = [_weights(mode, one - low) for one, low in zip(at, lows, strict=True)]
        first = 0 if mode == "linear" else -1
        total: Expr | None = None
        for offsets in itertools.product(range(len(weights[0])), repeat=rank):
            value = pixel(i[0], i[1], [low + float(o + first) for low, o in zip(lows, offsets, strict=True)])
            for d, offset in enumerate(offsets):
                value = value * weights[d][offset].cast(value.dtype)
            total = value if total is None else total + value
        assert total is not None
        return total.cast(x.dtype)

    return compute((*x.shape[:2], *grid.shape[1:-1]), element, name="out")


def _weights(mode: str, t: Expr) -> list[Expr]:
    """Weighs the elements around, for the distance from the one before."""
    if mode == "linear":
        return [1 - t, t]
    a, far, u, beyond = -0.75, t + 1, 1 - t, 2 - t
    return [
        ((far * a - 5 * a) * far + 8 * a) * far - 4 * a, (t * (a + 2) - (a + 3)) * t * t + 1,
        (u * (a + 2) - (a + 3)) * u * u + 1, ((beyond * a - 5 * a) * beyond + 8 * a) * beyond - 4 * a,
    ]  # fmt: skip


def _reflected(v: Expr, low: float, high: float) -> Expr:
    """v mirrored at both ends until it is between them."""
    span = high - low
    if span <= 0:
        return literal(low, v.dtype)
    away = absolute(v - low)
    left = away - floor(away / (2 * span)) * (2 * span)
    return minimum(left, 2 * span - left) + low


@onnx("Col2Im")
def columns_to_image(node: Node) -> Tensor:
    """Windows added up where they lie in an image"""
    x, sizes, kernel = node.tensor(0), node.numbers(1) or [], node.numbers(2) or []
    rank = len(sizes)
    dilation, stride = node.ints("dilations") or [1] * rank, node.ints("strides") or [1] * rank
    pads = node.ints("pads") or [0] * (2 * rank)
    return columns.columns_to_image(x, sizes, kernel, stride, dilation, pads[:rank], pads[rank:])


@onnx("MaxUnpool")
def max_unpool(node: Node) -> Tensor:
    """Each element where its window had it, 0 elsewhere; the places are flat indices of the image as it was."""
    x, index, kernel = node.tensor(0), node.tensor(1), node.ints("kernel_shape") or []
    rank = len(kernel)
    stride, pads = node.ints("strides") or [1] * rank, node.ints("pads") or [0] * (2 * rank)
    own = [(x.shape[2 + d] - 1) * stride[d] - pads[d] - pads[d + rank] + kernel[d] for d in range(rank)]
    wanted = (node.numbers(2) or [])[2:] if node.has(2) else own
    return _unpooled(x, index, (*x.shape[:2], *own), (*x.shape[:2], *wanted))


@function
def _unpooled(x: Tensor, index: Tensor, own: Sequence[int], to: Sequence[int]) -> Tensor:
    k = reduce_axis(prod(x.shape), "k")
    flat, places = reshape(x, [-1]), reshape(index, [-1])

    def element(*i: Expr) -> build.Reduction:
        number: Expr = literal(0, i64)
        for one, size in zip(i, own, strict=True):
            number = number * size + one
        inside = [one < size for one, size, most in zip(i, own, to, strict=True) if size < most]
        value = precise(flat[k])
        return build.sum(select(all_of([*inside, places[k].equal(number)]), value, literal(0, value.dtype)), k)

    made = compute(tuple(to), element, name="sums")
    return made if made.dtype == x.dtype else compute(made.shape, lambda *i: made[i].cast(x.dtype), name="out")


@onnx("Det")
def determinant(node: Node) -> Tensor:
    """The determinant of the last two axes, up to 4 by 4"""
    x = node.tensor(0)
    size = x.shape[-1]
    if size > 4 or x.shape[-2] != size:
        raise NotCovered("the determinant of more than 4 rows")
    return _determinant(x)


@function
def _determinant(x: Tensor) -> Tensor:
    def minor(at: Callable[[int, int], Expr], rows: Sequence[int], columns: Sequence[int]) -> Expr:
        if len(rows) == 1:
            return at(rows[0], columns[0])
        total: Expr | None = None
        for number, column in enumerate(columns):
            rest = [one for one in columns if one != column]
            term = at(rows[0], column) * minor(at, rows[1:], rest)
            total = term if total is None else total - term if number % 2 else total + term
        assert total is not None
        return total

    def element(*i: Expr) -> Expr:
        whole = range(x.shape[-1])
        return minor(lambda r, c: precise(x[(*i, r, c)]), whole, whole).cast(x.dtype)

    return compute(x.shape[:-2], element)
