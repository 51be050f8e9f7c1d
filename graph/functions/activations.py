"""Activations of neural networks: those of `tensor/ops` by name, and those that have operands of their own."""

from __future__ import annotations

from ...tensor.build import compute, select, sigmoid
from ...tensor.composites import softplus as smooth
from ...tensor.expr import Expr
from ...tensor.precision import precise
from ...tensor.program import Tensor
from .elementwise import formula, mapped, real
from .function import axis_of, function
from .shape import chunk

NAMES = (
    "relu", "relu6", "sigmoid", "log_sigmoid", "tanh", "silu", "mish", "selu", "softsign", "hard_sigmoid", "hard_swish",
    "tanh_shrink",
)  # fmt: skip


def activation(name: str, x: Tensor, **numbers: float) -> Tensor:
    """One of the activations of `tensor/ops` (see NAMES, and leaky_relu, elu, celu, hard_tanh, hard_shrink, soft_shrink with
    their numbers), of floats; relu and relu6 of integers too."""
    return formula(name, x, **numbers) if name in ("relu", "relu6") else real(name, x, **numbers)


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """x times the normal distribution function of x, or its approximation by tanh."""
    return formula("gelu_tanh" if approximate else "gelu", x)


@function
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x where x > 0, else slope * x; one slope, or one for each channel, the axis 1."""

    def element(*i: Expr) -> Expr:
        one = len(slope.shape) == 0 or slope.shape == (1,)
        own = slope[(0,) * len(slope.shape)] if one else slope[i[1] if len(i) > 1 else i[0]]
        return select(x[i] > 0, x[i], x[i] * own)

    return compute(x.shape, element)


def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""

    def body(a: Expr) -> Expr:
        scaled = a if beta == 1 else a * beta
        value = smooth(scaled) if beta == 1 else smooth(scaled) * (1 / beta)
        return select(scaled > threshold, a, value)

    return mapped(body, x)


def threshold(x: Tensor, limit: float, value: float) -> Tensor:
    """x where x > limit, else a value."""
    return mapped(lambda a: select(a > limit, a, value), x)


@function
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second."""
    first, second = chunk(x, 2, axis_of(axis, len(x.shape)))
    return mapped(lambda a, b: (precise(a) * sigmoid(precise(b))).cast(a.dtype), first, second)
