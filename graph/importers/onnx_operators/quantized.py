"""ONNX's quantized numbers, as the arithmetic that they stand for."""

from __future__ import annotations

import numpy as np

from ....tensor import build
from ....tensor.build import compute, maximum, minimum
from ....tensor.dtype import DType, f32, i8, i32, u8
from ....tensor.expr import Expr
from ....tensor.precision import precise
from ....tensor.program import Tensor
from ...functions import linear
from ...functions.elementwise import cast, mapped
from ...functions.function import NotCovered, axis_of, function
from ...functions.quantized import dequantized, limits_of, parameter, quantized
from .convolutions import convolved
from .registry import Held, Node, onnx

_WIDER: dict[str, DType] = {"int4": i8, "int2": i8, "uint4": u8, "uint2": u8}


def _integers(node: Node, place: int) -> Tensor:
    """Quantized numbers as a tensor; those of types that are not here in a wider one."""
    value = node.given(place)
    if isinstance(value, Held):
        return value.tensor
    if isinstance(value, np.ndarray) and node.element(value.dtype.name) is None:
        name = value.dtype.name
        wider = f32 if name.startswith("float") else _WIDER.get(name)
        if wider is not None:
            return node.constant(value.astype(wider.numpy))
    return node.tensor(place)


def _axis(node: Node, x: Tensor) -> int:
    return axis_of(node.integer("axis", 1), len(x.shape)) if node.rank(1) and node.shape(1) != (1,) else 0


@onnx("QuantizeLinear")
def quantize_linear(node: Node) -> Tensor | Held:
    """round(x / scale) + zero point"""
    x, scale = node.tensor(0), node.tensor(1)
    zero = _integers(node, 2) if node.has(2) else None
    name, axis, block = _target(node), _axis(node, x), node.integer("block_size")
    dtype = node.element(name)
    if dtype is not None:
        return quantized(x, scale, zero, dtype, axis, block)
    if name not in _WIDER:
        raise NotCovered(f"the dtype {name}")
    bits, signed = int(name.lstrip("uint")), name.startswith("int")
    least = -(2 ** (bits - 1)) if signed else 0
    return Held(quantized(x, scale, zero, _WIDER[name], axis, block, (least, least + 2**bits - 1)), name)


def _target(node: Node) -> str:
    """The name of the type to which a node quantizes: that of its zero point, or of an attribute."""
    zero = node.given(2)
    if isinstance(zero, np.ndarray):
        return str(zero.dtype.name)
    if zero is not None:
        return node.name_of(2)
    return node.element_of(node.integer("output_dtype")) if node.integer("output_dtype") else "uint8"


@onnx("DequantizeLinear")
def dequantize_linear(node: Node) -> Tensor:
    """(x - zero point) * scale"""
    x, scale = _integers(node, 0), node.tensor(1)
    zero = _integers(node, 2) if node.has(2) else None
    dtype = node.dtype("output_dtype", scale.dtype) if node.integer("output_dtype") else scale.dtype
    return dequantized(x, scale, zero, dtype, _axis(node, x), node.integer("block_size"))


@onnx("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> tuple[Tensor, Tensor, Tensor]:
    """x in uint8, its scale and zero point, which its least and greatest elements and 0 say"""
    from ...functions import reductions

    x = node.tensor(0)
    high = mapped(lambda v: maximum(v, 0), reductions.max(x))
    low = mapped(lambda v: minimum(v, 0), reductions.min(x))
    scale = mapped(lambda a, b: (a - b) / 255.0, high, low)
    zero = mapped(lambda b, s: minimum(maximum(build.round(-b / s), 0.0), 255.0).cast(u8), low, scale)
    return quantized(x, scale, zero, u8), scale, zero


def _centred(node: Node, place: int, zero: int, axis: int | None = None) -> Tensor:
    """An operand less its zero point, in int32; the point may be of rows or columns along an axis."""
    x, point = node.tensor(place), node.maybe(zero)
    if point is None:
        return cast(x, i32)
    if len(point.shape) == 1 and point.shape != (1,):
        from ...functions.shape import reshape

        rank, at = len(x.shape), axis if axis is not None else 0
        point = reshape(point, [point.shape[0] if a == at % rank else 1 for a in range(rank)])
    elif point.shape == (1,):
        from ...functions.shape import reshape

        point = reshape(point, [])
    return mapped(lambda a, z: a - z, x, point, dtype=i32)


@onnx("MatMulInteger")
def matmul_integer(node: Node) -> Tensor:
    """The product of integers less their zero points"""
    return linear.matmul(_centred(node, 0, 2, -2), _centred(node, 1, 3, -1))


@onnx("ConvInteger")
def conv_integer(node: Node) -> Tensor:
    """The convolution of integers less their zero points"""
    return convolved(node, _centred(node, 0, 2), _centred(node, 1, 3, 0))


@onnx("QLinearMatMul")
def qlinear_matmul(node: Node) -> Tensor:
    """The product of quantized matrices, quantized"""
    dots = linear.matmul(_centred(node, 0, 2, -2), _centred(node, 3, 5, -1))
    return _requantized(node, dots, node.tensor(1), node.tensor(4), node.tensor(6), node.tensor(7), (-2, -1))


@onnx("QLinearConv")
def qlinear_conv(node: Node) -> Tensor:
    """The convolution of quantized images, quantized"""
    bias = node.maybe(8)
    sums = convolved(node, _centred(node, 0, 2), _centred(node, 3, 5, 0), bias)
    return _requantized(node, sums, node.tensor(1), node.tensor(4), node.tensor(6), node.tensor(7), (1, 1))


@function
def _requantized(
    node: Node, sums: Tensor, left: Tensor, right: Tensor, scale: Tensor, zero: Tensor, axes: tuple[int, int]
) -> Tensor:
    """Sums of products of quantized numbers in the scale of the result."""
    least, most = limits_of(zero.dtype)

    def one(t: Tensor, i: tuple[Expr, ...], axis: int) -> Expr:
        return precise(parameter(t, i, axis % max(len(i), 1), 0).cast(f32))

    def element(*i: Expr) -> Expr:
        value = sums[i].cast(f32) * (one(left, i, axes[0]) * one(right, i, axes[1]) / one(scale, i, axes[0]))
        value = build.round(value) + parameter(zero, i, axes[0] % max(len(i), 1), 0).cast(f32)
        return minimum(maximum(value, float(least)), float(most)).cast(zero.dtype)

    return compute(sums.shape, element)
