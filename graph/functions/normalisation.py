"""Normalisation by mean and variance, or by the mean square. Computed in float32 for narrow floats, rounded once."""

from __future__ import annotations

from math import prod

from ...tensor import build
from ...tensor.build import compute, reduce_axis, rsqrt
from ...tensor.dtype import DType
from ...tensor.expr import Expr
from ...tensor.ops.norm import group_normalised, layer_normalised
from ...tensor.ops.reduce import reduced, variance_of
from ...tensor.precision import precise
from ...tensor.program import Tensor
from .function import function
from .operands import at


@function
def batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor | None, beta: Tensor | None, epsilon: float
) -> Tensor:
    """(x - mean[c]) / sqrt(variance[c] + epsilon) * gamma[c] + beta[c], channels being the axis 1."""

    def scaled(c: Expr) -> Expr:
        root = rsqrt(precise(variance[c]) + epsilon)
        return root if gamma is None else root * precise(gamma[c])

    scale = compute(variance.shape, scaled, name="scale")

    def element(*i: Expr) -> Expr:
        value = (precise(x[i]) - precise(mean[i[1]])) * scale[i[1]]
        return (value if beta is None else value + precise(beta[i[1]])).cast(x.dtype)

    return compute(x.shape, element, name="out")


@function
def batch_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (by the number of elements) of each channel, in the dtype of sums."""
    over = tuple(axis for axis in range(len(x.shape)) if axis != 1)
    count = float(prod(x.shape[axis] for axis in over))
    sums = reduced(x, over, "mean_sum", build.sum, value=precise)
    mean = compute(sums.shape, lambda c: sums[c] / count, name="mean")
    return mean, variance_of(x, over, False, "variance")


@function
def layer_norm(
    x: Tensor, axes: int, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last `axes` axes, in the dtype of x."""
    return layer_normalised(x, gamma, beta, epsilon, axes, x.dtype)


@function
def group_norm(x: Tensor, groups: int, gamma: Tensor | None, beta: Tensor | None, epsilon: float) -> Tensor:
    """Works as layer_norm over each group of channels of each image; gamma and beta are of channels. Instance normalisation has
    a group for each channel."""
    return group_normalised(x, gamma, beta, groups, epsilon)


@function
def rms_norm(
    x: Tensor, axes: int, gamma: Tensor | None, epsilon: float, dtype: DType | None = None
) -> Tensor:  # fmt: skip
    """x / sqrt(mean of x^2 + epsilon) * gamma over the last `axes` axes."""
    outer, inner = x.shape[:-axes], x.shape[-axes:]
    over = [reduce_axis(size, f"k{number}" if axes > 1 else "k") for number, size in enumerate(inner)]
    squares = compute(
        outer, lambda *i: build.sum(precise(x[(*i, *over)]) * precise(x[(*i, *over)]), over), name="squares"
    )
    scale = compute(outer, lambda *i: rsqrt(squares[i] / float(prod(inner)) + epsilon), name="scale")

    def element(*i: Expr) -> Expr:
        value = precise(x[i]) * scale[i[:-axes]]
        return (value if gamma is None else value * precise(at(gamma, i))).cast(dtype or x.dtype)

    return compute(x.shape, element, name="out")
