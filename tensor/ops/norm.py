"""Normalisation: by mean and variance, or by the mean square, of rows, channels or groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...common.errors import ArgumentError
from .. import build
from ..build import compute, reduce_axis, rsqrt
from ..dtype import DType
from ..expr import Expr
from ..indices.affine import simplify
from ..precision import narrowed, precise
from ..program import Program, Tensor
from .arguments import Size
from .operator import Operands, operator
from .reduce import axis_letters, mean_of_rows
from .window import channels_first


@operator
def layer_norm(
    rows: Size, columns: Size, epsilon: float = 1e-5, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = (x - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance over columns

    x and out are [rows, columns]; gamma and beta are [columns]. The variance is the mean of (x - mean)^2; `epsilon` is added to
    it, not to its root.
    """
    operand = Operands(dtype, constants)
    x, gamma, beta = operand("x", rows, columns), operand("gamma", columns), operand("beta", columns)
    return operand.program(layer_normalised(x, gamma, beta, epsilon))


def layer_normalised(
    x: Tensor, gamma: Tensor | None, beta: Tensor | None, epsilon: float, over: int = 1, dtype: DType | None = None
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance over the last axis, or several; in the dtype of
    gamma unless another is given."""
    outer, axes = x.shape[:-over], axis_letters(x)
    mean = mean_of_rows(x, "mean", over)
    centred = compute(x.shape, lambda *i: precise(x[i]) - mean[i[:-over]], name="centred", axes=axes)
    squares = compute(x.shape, lambda *i: centred[i] * centred[i], name="squares", axes=axes)
    variance = mean_of_rows(squares, "variance", over)
    scale = compute(outer, lambda *i: rsqrt(variance[i] + epsilon), name="scale", axes=axes[:-over])

    def element(*i: Expr) -> Expr:
        value = _affine(centred[i] * scale[i[:-over]], gamma, beta, i[-over:])
        return value.cast(dtype or (gamma or x).dtype)

    return compute(x.shape, element, name="out", axes=axes)


def _affine(value: Expr, gamma: Tensor | None, beta: Tensor | None, place: tuple[Expr, ...]) -> Expr:
    """value * gamma + beta, of those that there are."""
    scaled = value if gamma is None else value * precise(gamma[place])
    return scaled if beta is None else scaled + precise(beta[place])


@operator
def rms_norm(
    rows: Size, columns: Size, epsilon: float = 1e-5, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = x / sqrt(mean of x^2 + epsilon) * gamma, the mean over columns

    x and out are [rows, columns]; gamma is [columns]. `epsilon` is added to the mean, not to its root.
    """
    operand = Operands(dtype, constants)
    x, gamma, j = operand("x", rows, columns), operand("gamma", columns), reduce_axis(columns, "j")
    squares = compute(rows, lambda i: build.sum(precise(x[i, j]) * precise(x[i, j]), j), name="squares")
    scale = compute(rows, lambda i: rsqrt(squares[i] / float(columns) + epsilon), name="scale")

    def element(i: Expr, j: Expr) -> Expr:
        return (precise(x[i, j]) * scale[i] * precise(gamma[j])).cast(operand.dtype)

    return operand.program(compute((rows, columns), element, name="out"))


@operator
def l2_normalize(
    rows: Size, columns: Size, epsilon: float = 1e-12, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = x / max(sqrt(sum of x^2), epsilon), the sum over columns

    x and out are [rows, columns]. A row shorter than `epsilon` is divided by it.
    """
    operand = Operands(dtype, constants)
    x, j = operand("x", rows, columns), reduce_axis(columns, "j")
    squares = compute(rows, lambda i: build.sum(precise(x[i, j]) * precise(x[i, j]), j), name="squares")
    length = compute(rows, lambda i: build.maximum(build.sqrt(squares[i]), epsilon), name="length")
    return operand.program(
        compute((rows, columns), lambda i, j: (precise(x[i, j]) / length[i]).cast(operand.dtype), name="out")
    )


@operator
def batch_norm(
    n: Size, c: Size, h: Size, w: Size, epsilon: float = 1e-5, training: bool = False, layout: str = "nchw",
    dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = (x - mean[c]) / sqrt(variance[c] + epsilon) * gamma[c] + beta[c], x being [n, c, h, w] or [n, h, w, c].

    mean, variance, gamma and beta are [c]. mean and variance are operands; when `training`, they are those of x over n, h, w,
    and results beside out.
    """
    operand = Operands(dtype, constants)
    first = channels_first("batch_norm", layout, 2)
    x = operand("x", *((n, c, h, w) if first else (n, h, w, c)))
    channel = 1 if first else 3
    if training:
        over = [reduce_axis(size, name) for size, name in zip((n, h, w), "nhw", strict=True)]

        def place(c: Expr) -> tuple[Expr, ...]:
            return (over[0], c, over[1], over[2]) if first else (*over, c)

        mean, variance = _moments(x, (c,), place, over)
    else:
        mean, variance = operand("mean", c), operand("variance", c)
    gamma, beta = operand("gamma", c), operand("beta", c)
    scale = compute(c, lambda c: rsqrt(precise(variance[c]) + epsilon) * precise(gamma[c]), name="scale")

    def element(*i: Expr) -> Expr:
        c = i[channel]
        return ((precise(x[i]) - precise(mean[c])) * scale[c] + precise(beta[c])).cast(operand.dtype)

    out = compute(x.shape, element, name="out", axes=("n", "c", "h", "w") if first else ("n", "h", "w", "c"))
    moments = (narrowed(mean, operand.dtype), narrowed(variance, operand.dtype)) if training else ()
    return operand.program(out, *moments)


@operator
def group_norm(
    n: Size, c: Size, h: Size, w: Size, groups: Size, epsilon: float = 1e-5, dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = (x - mean) / sqrt(variance + epsilon) * gamma[c] + beta[c], mean and variance over each group of channels.

    x is [n, c, h, w]; gamma and beta are [c]; group g has the channels g * c / groups .. (g + 1) * c / groups - 1.
    Errors: ArgumentError for groups that do not divide c.
    """
    if c % groups:
        raise ArgumentError("groups of group_norm must divide c", found=f"groups={groups} c={c}")
    return _grouped_norm(Operands(dtype, constants), (n, c, h, w), groups, epsilon)


@operator
def instance_norm(
    n: Size, c: Size, h: Size, w: Size, epsilon: float = 1e-5, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = (x - mean) / sqrt(variance + epsilon) * gamma[c] + beta[c], mean and variance of each x[n, c] over h, w.

    x is [n, c, h, w]; gamma and beta are [c].
    """
    return _grouped_norm(Operands(dtype, constants), (n, c, h, w), c, epsilon)


def _grouped_norm(operand: Operands, shape: tuple[int, int, int, int], groups: int, epsilon: float) -> Program:
    _, c, _, _ = shape
    x, gamma, beta = operand("x", *shape), operand("gamma", c), operand("beta", c)
    return operand.program(group_normalised(x, gamma, beta, groups, epsilon))


def group_normalised(x: Tensor, gamma: Tensor | None, beta: Tensor | None, groups: int, epsilon: float) -> Tensor:
    """Works as group_norm, on images of up to three dimensions, in the dtype of x."""
    n, c, *sizes = x.shape
    size, names = c // groups, (("w",), ("h", "w"), ("d", "h", "w"))[len(sizes) - 1] if sizes else ()
    over = [reduce_axis(extent, name) for extent, name in zip((size, *sizes), ("k", *names), strict=True)]
    mean, variance = _moments(x, (n, groups), lambda n, g: (n, simplify(g * size + over[0]), *over[1:]), over)
    scale = compute((n, groups), lambda n, g: rsqrt(variance[n, g] + epsilon), name="scale")

    def element(*i: Expr) -> Expr:
        g = simplify(i[1] // size)
        value = (precise(x[i]) - mean[i[0], g]) * scale[i[0], g]
        return _affine(value, gamma, beta, (i[1],)).cast(x.dtype)

    return compute(x.shape, element, name="out", axes=("n", "c", *names))


def _moments(
    x: Tensor, shape: tuple[int, ...], place: Callable[..., tuple[Expr, ...]], over: Sequence[build.ReduceAxis]
) -> tuple[Tensor, Tensor]:
    """Mean and variance of x at `place` over some axes."""
    count = float(prod(axis.extent for axis in over))
    sums = compute(shape, lambda *i: build.sum(precise(x[place(*i)]), over), name="mean_sum")
    mean = compute(shape, lambda *i: sums[i] / count, name="mean")

    def squared(*i: Expr) -> build.Reduction:
        away = precise(x[place(*i)]) - mean[i]
        return build.sum(away * away, over)

    squares = compute(shape, squared, name="variance_sum")
    return mean, compute(shape, lambda *i: squares[i] / count, name="variance")
