"""ONNX's activations that have numbers of their own."""

from __future__ import annotations

import math

from ....tensor import build
from ....tensor.build import maximum, minimum, select
from ....tensor.composites import expm1
from ....tensor.expr import Expr
from ....tensor.program import Tensor
from ...functions import activations, softmax
from ...functions.creation import one_hot
from ...functions.elementwise import mapped
from ...functions.reductions import extreme_index
from .registry import Node, onnx


@onnx("Relu")
def relu(node: Node) -> Tensor:
    """max(x, 0)"""
    return activations.activation("relu", node.tensor(0))


@onnx("LeakyRelu")
def leaky_relu(node: Node) -> Tensor:
    """x where x >= 0, else alpha * x"""
    return activations.activation("leaky_relu", node.tensor(0), alpha=node.real("alpha", 0.01))


@onnx("ThresholdedRelu")
def thresholded_relu(node: Node) -> Tensor:
    """x where x > alpha, else 0"""
    return activations.threshold(node.tensor(0), node.real("alpha", 1.0), 0.0)


@onnx("Elu")
def elu(node: Node) -> Tensor:
    """x where x > 0, else alpha * (exp(x) - 1)"""
    return activations.activation("elu", node.tensor(0), alpha=node.real("alpha", 1.0))


@onnx("Celu")
def celu(node: Node) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))"""
    return activations.activation("celu", node.tensor(0), alpha=node.real("alpha", 1.0))


@onnx("Selu")
def selu(node: Node) -> Tensor:
    """gamma * (x where x > 0, else alpha * (exp(x) - 1))"""
    alpha = node.real("alpha", 1.67326319217681884765625)
    gamma = node.real("gamma", 1.05070102214813232421875)
    return mapped(lambda a: select(a > 0, a * gamma, expm1(a) * (alpha * gamma)), node.tensor(0))


@onnx("HardSigmoid")
def hard_sigmoid(node: Node) -> Tensor:
    """min(max(alpha * x + beta, 0), 1)"""
    alpha, beta = node.real("alpha", 0.2), node.real("beta", 0.5)
    return mapped(lambda a: minimum(maximum(a * alpha + beta, 0), 1), node.tensor(0))


@onnx("HardSwish")
def hard_swish(node: Node) -> Tensor:
    """x * min(max(x / 6 + 1/2, 0), 1)"""
    return activations.activation("hard_swish", node.tensor(0))


@onnx("Swish")
def swish(node: Node) -> Tensor:
    """x * sigmoid(alpha * x)"""
    alpha = node.real("alpha", 1.0)
    if alpha == 1:
        return activations.activation("silu", node.tensor(0))
    return mapped(lambda a: a * build.sigmoid(a * alpha), node.tensor(0))


@onnx("Gelu")
def gelu(node: Node) -> Tensor:
    """x times the normal distribution function of x"""
    return activations.gelu(node.tensor(0), node.text("approximate", "none") == "tanh")


@onnx("Shrink")
def shrink(node: Node) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, else 0"""
    bias, limit = node.real("bias"), node.real("lambd", 0.5)
    x = node.tensor(0)
    if not x.dtype.is_float:
        bias, limit = int(bias), math.floor(limit)

    def body(a: Expr) -> Expr:
        return select(a < -limit, a + bias, select(a > limit, a - bias, build.literal(0, a.dtype)))

    return mapped(body, x)


@onnx("Softmax")
def soft(node: Node) -> Tensor:
    """exp(x) / sum of exp(x)"""
    return softmax.softmax(node.tensor(0), node.integer("axis", -1))


@onnx("LogSoftmax")
def log_soft(node: Node) -> Tensor:
    """log of softmax"""
    return softmax.log_softmax(node.tensor(0), node.integer("axis", -1))


@onnx("Hardmax")
def hardmax(node: Node) -> Tensor:
    """1 at the first of the greatest along an axis, else 0"""
    x, axis = node.tensor(0), node.axis(-1)
    return one_hot(extreme_index(x, axis), x.shape[axis], x.dtype, axis)
