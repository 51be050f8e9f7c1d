"""Convolutions, their transposes, and what is fused with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...common.errors import ArgumentError
from .. import build
from ..build import compute, reduce_axis
from ..expr import Expr
from ..indices.affine import simplify
from ..precision import narrowed, wide
from ..program import Program, Tensor
from .arguments import Offsets, Size, Sizes, per_dimension
from .operator import Operands, operator
from .window import POSITIONS, Window, all_of, channels_first


@operator
def conv1d(
    n: Size, c: Size, w: Size, o: Size, kernel: Sizes = 3, stride: Sizes = 1, padding: Offsets = 0,
    dilation: Sizes = 1, groups: Size = 1, layout: str = "ncw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, o, p] = sum over c, r of X[n, c, p * stride + r * dilation - padding] W[o, c, r]: see conv2d.

    With layout "nwc" X is [n, w, c], W is [kernel, c / groups, o] and y is [n, p, o].
    """
    window = Window.of("conv1d", (w,), kernel, stride, padding, dilation)
    operand = Operands(dtype, constants)
    y = _convolution("conv1d", operand, n, c, o, window, groups, channels_first("conv1d", layout, 1))
    return operand.program(narrowed(y, operand.dtype))


@operator
def conv2d(
    n: Size, c: Size, h: Size, w: Size, o: Size, kernel: Sizes = 3, stride: Sizes = 1, padding: Offsets = 0,
    dilation: Sizes = 1, groups: Size = 1, layout: str = "nchw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, o, p, q] = sum over c, r, s of X[n, c, p * stride + r * dilation - padding, ...] W[o, c, r, s], zeros around.

    As in neural networks, nothing is flipped. X is [n, c, h, w] and W is [o, c / groups, *kernel]; with layout "nhwc" X is
    [n, h, w, c], W is [*kernel, c / groups, o] and y is [n, p, q, o]. Outputs of a group read the channels of that group.
    kernel, stride, padding and dilation are one number or one for each dimension, as in 3x5. A 3x3 window of stride 1 or 2 may
    be summed by fewer products (Winograd).
    Errors: ArgumentError for groups that do not divide c and o, or a window larger than the padded image.
    """
    window = Window.of("conv2d", (h, w), kernel, stride, padding, dilation)
    operand = Operands(dtype, constants)
    y = _convolution("conv2d", operand, n, c, o, window, groups, channels_first("conv2d", layout, 2))
    return operand.program(narrowed(y, operand.dtype))


@operator
def conv3d(
    n: Size, c: Size, d: Size, h: Size, w: Size, o: Size, kernel: Sizes = 3, stride: Sizes = 1, padding: Offsets = 0,
    dilation: Sizes = 1, groups: Size = 1, layout: str = "ncdhw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, o, p, q, u] = sum over c, r, s, t of X[n, c, p * stride + r * dilation - padding, ...] W[o, c, r, s, t]: see conv2d.

    With layout "ndhwc" X is [n, d, h, w, c], W is [*kernel, c / groups, o] and y is [n, p, q, u, o].
    """
    window = Window.of("conv3d", (d, h, w), kernel, stride, padding, dilation)
    operand = Operands(dtype, constants)
    y = _convolution("conv3d", operand, n, c, o, window, groups, channels_first("conv3d", layout, 3))
    return operand.program(narrowed(y, operand.dtype))


@operator
def depthwise_conv2d(
    n: Size, c: Size, h: Size, w: Size, kernel: Sizes = 3, stride: Sizes = 1, padding: Offsets = 0, dilation: Sizes = 1,
    multiplier: Size = 1, layout: str = "nchw", dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """y[n, o, p, q] = sum over r, s of X[n, o / multiplier, p * stride + r * dilation - padding, ...] W[o, r, s].

    One filter for each of o = c * multiplier outputs; W is [o, *kernel]. With layout "nhwc" X is [n, h, w, c],
    W is [*kernel, o] and y is [n, p, q, o].
    """
    window = Window.of("depthwise_conv2d", (h, w), kernel, stride, padding, dilation)
    first = channels_first("depthwise_conv2d", layout, 2)
    operand = Operands(dtype, constants)
    o = c * multiplier
    x = operand("X", *((n, c, h, w) if first else (n, h, w, c)))
    weights = operand("W", *((o, *window.kernel) if first else (*window.kernel, o)))
    offsets = window.axes()

    def element(n: Expr, o: Expr, positions: Sequence[Expr]) -> build.Reduction:
        places = window.places(positions, offsets)
        source = simplify(o // multiplier)
        value = _guarded(x[(n, source, *places) if first else (n, *places, source)], window.inside(places))
        weight = weights[(o, *offsets) if first else (*offsets, o)]
        return build.sum(wide(value) * wide(weight), offsets)

    y = _over_images(n, o, window.counts, first, element)
    return operand.program(narrowed(y, operand.dtype))


@operator
def conv2d_bias_relu(
    n: Size, c: Size, h: Size, w: Size, o: Size, kernel: Sizes = 3, stride: Sizes = 1, padding: Offsets = 0,
    dilation: Sizes = 1, groups: Size = 1, residual: bool = False, layout: str = "nchw", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """z = max(conv2d(X, W) + bias[o] (+ R), 0), R of the shape of the result: see conv2d.

    X is [n, c, h, w], W is [o, c / groups, *kernel], bias is [o], and z and R are [n, o, p, q] as in conv2d;
    with layout "nhwc" X is [n, h, w, c], W is [*kernel, c / groups, o], and z and R are [n, p, q, o]. R is there if `residual`.
    """
    window = Window.of("conv2d_bias_relu", (h, w), kernel, stride, padding, dilation)
    first = channels_first("conv2d_bias_relu", layout, 2)
    operand = Operands(dtype, constants)
    y = _convolution("conv2d_bias_relu", operand, n, c, o, window, groups, first)
    bias = operand("bias", o)
    other = operand("R", *y.shape) if residual else None

    def finished(*i: Expr) -> Expr:
        total = y[i] + wide(bias[i[1 if first else -1]])
        return build.maximum(total if other is None else total + wide(other[i]), 0)

    z = compute(y.shape, finished, name="z", axes=_axis_names(2, first))
    return operand.program(narrowed(z, operand.dtype))


@operator
def conv_transpose1d(
    n: Size, c: Size, w: Size, o: Size, kernel: Sizes = 3, stride: Sizes = 1, padding: Offsets = 0,
    output_padding: Offsets = 0, dilation: Sizes = 1, groups: Size = 1, layout: str = "ncw", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """The transpose of conv1d as a linear map: see conv_transpose2d. With layout "nwc" W is [kernel, c, o / groups]."""
    return _transposed(
        "conv_transpose1d", Operands(dtype, constants), (n, c, o), (w,), kernel, stride, padding, output_padding,
        dilation, groups, channels_first("conv_transpose1d", layout, 1),
    )  # fmt: skip


@operator
def conv_transpose2d(
    n: Size, c: Size, h: Size, w: Size, o: Size, kernel: Sizes = 3, stride: Sizes = 1, padding: Offsets = 0,
    output_padding: Offsets = 0, dilation: Sizes = 1, groups: Size = 1, layout: str = "nchw", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """The transpose of conv2d as a linear map: each X[n, c, i, j] is added times W[c, o] to a window of y[n, o].

    y[n, o, p, q] = sum over c, r, s of X[n, c, (p + padding - r * dilation) / stride, ...] W[c, o, r, s] where the
    division leaves no rest. y has (h - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 rows. W is
    [c, o / groups, *kernel]; with layout "nhwc" X is [n, h, w, c], W is [*kernel, c, o / groups] and y is [n, p, q, o].
    Errors: ArgumentError for groups that do not divide c and o, or an empty result.
    """
    return _transposed(
        "conv_transpose2d", Operands(dtype, constants), (n, c, o), (h, w), kernel, stride, padding, output_padding,
        dilation, groups, channels_first("conv_transpose2d", layout, 2),
    )  # fmt: skip


@operator
def conv_transpose3d(
    n: Size, c: Size, d: Size, h: Size, w: Size, o: Size, kernel: Sizes = 3, stride: Sizes = 1, padding: Offsets = 0,
    output_padding: Offsets = 0, dilation: Sizes = 1, groups: Size = 1, layout: str = "ncdhw", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """The transpose of conv3d as a linear map: see conv_transpose2d. With layout "ndhwc" W is [*kernel, c, o / groups]."""
    return _transposed(
        "conv_transpose3d", Operands(dtype, constants), (n, c, o), (d, h, w), kernel, stride, padding, output_padding,
        dilation, groups, channels_first("conv_transpose3d", layout, 3),
    )  # fmt: skip


def _convolution(
    name: str, operand: Operands, n: int, c: int, o: int, window: Window, groups: int, first: bool
) -> Tensor:
    """The stage y of new operands X and W."""
    inner, _ = _group_sizes(name, c, o, groups)
    x = operand("X", *((n, c, *window.sizes) if first else (n, *window.sizes, c)))
    weights = operand("W", *((o, inner, *window.kernel) if first else (*window.kernel, inner, o)))
    return convolved(x, weights, window, groups, first)


def convolved(x: Tensor, weights: Tensor, window: Window, groups: int = 1, first: bool = True) -> Tensor:
    """The stage y of a convolution, in the dtype of its accumulator. Shapes are as conv2d says, channels first or last."""
    n, o = x.shape[0], weights.shape[0 if first else -1]
    inner, outer = weights.shape[1 if first else -2], o // groups
    channel, offsets = reduce_axis(inner, "c"), window.axes()

    def element(n: Expr, o: Expr, positions: Sequence[Expr]) -> build.Reduction:
        places = window.places(positions, offsets)
        source: Expr = channel if groups == 1 else simplify(o // outer * inner + channel)
        value = _guarded(x[(n, source, *places) if first else (n, *places, source)], window.inside(places))
        weight = weights[(o, channel, *offsets) if first else (*offsets, channel, o)]
        return build.sum(wide(value) * wide(weight), [channel, *offsets])

    return _over_images(n, o, window.counts, first, element)


def _transposed(
    name: str, operand: Operands, channels: tuple[int, int, int], sizes: tuple[int, ...], kernel: Sizes, stride: Sizes,
    padding: Offsets, output_padding: Offsets, dilation: Sizes, groups: Size, first: bool,
) -> Program:  # fmt: skip
    n, c, o = channels
    _, outer = _group_sizes(name, c, o, groups)
    rank = len(sizes)
    extra = per_dimension(name, "output_padding", output_padding, rank)
    window = Window(
        sizes, per_dimension(name, "kernel", kernel, rank), per_dimension(name, "stride", stride, rank),
        per_dimension(name, "padding", padding, rank), per_dimension(name, "dilation", dilation, rank),
    )  # fmt: skip
    counts = tuple(
        (sizes[d] - 1) * window.stride[d] - 2 * window.padding[d] + window.dilation[d] * (window.kernel[d] - 1)
        + extra[d] + 1
        for d in range(rank)
    )  # fmt: skip
    if min(counts) < 1:
        raise ArgumentError(f"the padding of {name} leaves nothing of the result", found=f"padding={padding}")
    x = operand("X", *((n, c, *sizes) if first else (n, *sizes, c)))
    weights = operand("W", *((c, outer, *window.kernel) if first else (*window.kernel, c, outer)))
    return operand.program(narrowed(transposed(x, weights, window, counts, groups, first), operand.dtype))


def transposed(
    x: Tensor, weights: Tensor, window: Window, counts: Sequence[int], groups: int = 1, first: bool = True
) -> Tensor:
    """The stage y of a transposed convolution, of `counts` positions, in the dtype of its accumulator: see conv_transpose2d."""
    n, c, sizes = x.shape[0], x.shape[1 if first else -1], window.sizes
    inner, outer = c // groups, weights.shape[1 if first else -1]
    channel, offsets = reduce_axis(inner, "c"), window.axes()

    def element(n: Expr, o: Expr, positions: Sequence[Expr]) -> build.Reduction:
        places: list[Expr] = []
        guards: list[Expr] = []
        for d, position in enumerate(positions):
            step, reach = window.stride[d], window.dilation[d] * (window.kernel[d] - 1)
            spread = simplify(position + window.padding[d] - offsets[d] * window.dilation[d])
            places.append(simplify(spread // step))
            guards += [places[d] >= 0] * (reach > window.padding[d])
            guards += [places[d] < sizes[d]] * (counts[d] - 1 + window.padding[d] >= sizes[d] * step)
            guards += [(spread % step).equal(0)] * (step > 1)
        source: Expr = channel if groups == 1 else simplify(o // outer * inner + channel)
        target = o if groups == 1 else simplify(o % outer)
        value = _guarded(x[(n, source, *places) if first else (n, *places, source)], guards)
        weight = weights[(source, target, *offsets) if first else (*offsets, source, target)]
        return build.sum(wide(value) * wide(weight), [channel, *offsets])

    return _over_images(n, outer * groups, counts, first, element)


def _over_images(
    n: int, o: int, counts: Sequence[int], first: bool, element: Callable[[Expr, Expr, Sequence[Expr]], build.Reduction]
) -> Tensor:
    """The stage y over images, outputs and positions, in the order of the layout."""

    def body(*i: Expr) -> build.Reduction:
        return element(i[0], i[1], i[2:]) if first else element(i[0], i[-1], i[1:-1])

    shape = (n, o, *counts) if first else (n, *counts, o)
    return compute(shape, body, name="y", axes=_axis_names(len(counts), first))


def _axis_names(rank: int, first: bool) -> tuple[str, ...]:
    return ("n", "o", *POSITIONS[:rank]) if first else ("n", *POSITIONS[:rank], "o")


def _guarded(value: Expr, guards: Sequence[Expr]) -> Expr:
    return build.select(all_of(guards), value, 0) if guards else value


def _group_sizes(name: str, c: int, o: int, groups: int) -> tuple[int, int]:
    """(channels that an output reads, outputs of a group)"""
    if c % groups or o % groups:
        raise ArgumentError(f"groups of {name} must divide c and o", found=f"groups={groups} c={c} o={o}")
    return c // groups, o // groups


__all__ = [
    "conv1d", "conv2d", "conv2d_bias_relu", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "depthwise_conv2d",
]  # fmt: skip
