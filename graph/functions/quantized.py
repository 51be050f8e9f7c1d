"""Quantized numbers, as the arithmetic that they stand for."""

from __future__ import annotations

from ...tensor import build
from ...tensor.build import compute, maximum, minimum
from ...tensor.dtype import DType, Kind, f32, i32, i64, u32
from ...tensor.expr import Expr, const
from ...tensor.indices.affine import simplify
from ...tensor.precision import precise
from ...tensor.program import Tensor
from .function import NotCovered, function

QuantizationParameter = Tensor | float | int  # a scale or a zero point


def parameter(t: QuantizationParameter, i: tuple[Expr, ...], axis: int, block: int) -> Expr:
    """A scale or zero point at a place: one number, one for each index of an axis, or one for each block along it."""
    if not isinstance(t, Tensor):
        return const(t, f32 if isinstance(t, float) else i32)
    if t.shape in ((), (1,)):
        return t[(0,) * len(t.shape)]
    if (len(t.shape) == 1 and len(i) > 1) or block == 0:
        return t[i[axis]] if len(t.shape) == 1 else t[tuple(n if s > 1 else 0 for n, s in zip(i, t.shape, strict=True))]
    return t[tuple(simplify(n // block) if a == axis else n for a, n in enumerate(i))]


@function
def quantized(
    x: Tensor, scale: QuantizationParameter, zero: QuantizationParameter | None, dtype: DType, axis: int = 0, block: int = 0,
    limits: tuple[int, int] | None = None, inverse: bool = False,
) -> Tensor:  # fmt: skip
    """round(x / scale) + zero in an integer dtype, or the nearest that it holds, or that lies within limits. `inverse`: the
    scale is one that x is multiplied with."""
    least, most = limits or limits_of(dtype)
    given = scale.dtype if isinstance(scale, Tensor) else f32
    inside = given if given.is_float and x.dtype.is_integer else x.dtype

    def element(*i: Expr) -> Expr:
        number, factor = precise(x[i].cast(inside)), precise(parameter(scale, i, axis, block).cast(inside))
        value = build.round(number * factor if inverse else number / factor)
        if zero is not None:
            value = value + parameter(zero, i, axis, block).cast(value.dtype)
        return minimum(maximum(value, float(least)), float(most)).cast(dtype)

    return compute(x.shape, element)


@function
def dequantized(
    x: Tensor,
    scale: QuantizationParameter,
    zero: QuantizationParameter | None,
    dtype: DType,
    axis: int = 0,
    block: int = 0,
) -> Tensor:
    """(x - zero) * scale"""

    def element(*i: Expr) -> Expr:
        factor = precise(parameter(scale, i, axis, block))
        value = x[i]
        if zero is None:
            return (value.cast(factor.dtype) * factor).cast(dtype)
        inside = factor.dtype if x.dtype.is_float else i64 if x.dtype == u32 else i32
        away = value.cast(inside) - parameter(zero, i, axis, block).cast(inside)
        return (away.cast(factor.dtype) * factor).cast(dtype)

    return compute(x.shape, element)


def limits_of(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype."""
    if not dtype.is_integer:
        raise NotCovered(f"quantization to {dtype}")
    if dtype.kind is Kind.UNSIGNED:
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
