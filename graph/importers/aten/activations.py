"""ATen's activations."""

from __future__ import annotations

from ....tensor.build import select
from ....tensor.composites import expm1
from ....tensor.expr import Expr
from ....tensor.program import Tensor
from ...functions import activations
from ...functions.elementwise import mapped
from .registry import CONVERTERS, aten

_ACTIVATIONS = {
    "relu": "relu", "relu6": "relu6", "silu": "silu", "mish": "mish", "selu": "selu", "hardsigmoid": "hard_sigmoid",
    "hardswish": "hard_swish", "log_sigmoid": "log_sigmoid",
}  # fmt: skip


for _op, _name in _ACTIVATIONS.items():
    CONVERTERS[f"{_op}.default"] = lambda x, name=_name: activations.activation(name, x)


@aten("gelu.default")
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function"""
    return activations.gelu(x, approximate == "tanh")


@aten("elu.default")
def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    """scale * (x where x > 0, else alpha * (exp(input_scale * x) - 1))"""
    if scale == 1 and input_scale == 1:
        return activations.activation("elu", x, alpha=float(alpha))

    def body(a: Expr) -> Expr:
        return select(a > 0, a * float(scale), expm1(a * float(input_scale)) * float(alpha * scale))

    return mapped(body, x)


@aten("celu.default")
def celu(x: Tensor, alpha: float = 1) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))"""
    return activations.activation("celu", x, alpha=float(alpha))


@aten("leaky_relu.default")
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else slope * x"""
    return activations.activation("leaky_relu", x, alpha=float(negative_slope))


@aten("hardshrink.default")
def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| > limit, else 0"""
    return activations.activation("hard_shrink", x, limit=float(lambd))


@aten("softshrink.default")
def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by the limit"""
    return activations.activation("soft_shrink", x, limit=float(lambd))


@aten("softplus.default")
def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta"""
    return activations.softplus(x, float(beta), float(threshold))


@aten("threshold.default")
def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """x where x > threshold, else a value"""
    return activations.threshold(x, threshold, value)


@aten("prelu.default", "_prelu_kernel.default")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else weight * x"""
    if len(weight.shape) > 1:  # as a decomposition has it: it broadcasts
        return mapped(lambda a, slope: select(a > 0, a, a * slope), x, weight)
    return activations.prelu(x, weight)


@aten("glu.default")
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """The first half times the sigmoid of the second"""
    return activations.glu(x, dim)
