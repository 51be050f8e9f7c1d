"""Quantized numbers as exports of PT2E have them: `quantized_decomposed`, a namespace beside ATen's."""

from __future__ import annotations

from ....tensor.dtype import DType, f32
from ....tensor.program import Tensor
from ...functions.elementwise import mapped
from ...functions.quantized import dequantized, quantized
from .registry import aten


@aten("quantized_decomposed.quantize_per_tensor.default")
def quantize_per_tensor(x: Tensor, scale: float, zero: int, least: int, most: int, dtype: DType) -> Tensor:
    """round(x / scale) + zero between limits"""
    return quantized(x, 1.0 / float(scale), int(zero), dtype, limits=(least, most), inverse=True)


@aten("quantized_decomposed.quantize_per_tensor.tensor", "quantized_decomposed.quantize_per_tensor.tensor2")
def quantize_by_tensors(x: Tensor, scale: Tensor, zero: Tensor, least: int, most: int, dtype: DType) -> Tensor:
    """The same of numbers that are tensors"""
    return quantized(x, mapped(lambda s: 1.0 / s, scale), zero, dtype, limits=(int(least), int(most)), inverse=True)


@aten("quantized_decomposed.quantize_per_channel.default")
def quantize_per_channel(
    x: Tensor, scale: Tensor, zero: Tensor, axis: int, least: int, most: int, dtype: DType
) -> Tensor:
    """The same with numbers for each index of an axis"""
    inverse = mapped(lambda s: 1.0 / s, scale)
    return quantized(x, inverse, zero, dtype, axis % len(x.shape), limits=(least, most), inverse=True)


@aten(
    "quantized_decomposed.dequantize_per_tensor.default", "quantized_decomposed.dequantize_per_tensor.tensor",
    "quantized_decomposed.dequantize_per_tensor.tensor2",
)  # fmt: skip
def dequantize_per_tensor(
    x: Tensor,
    scale: Tensor | float,
    zero: Tensor | int,
    least: int,
    most: int,
    dtype: DType,
    out_dtype: DType | None = None,
) -> Tensor:
    """(x - zero) * scale"""
    factor = scale if isinstance(scale, Tensor) else float(scale)
    return dequantized(x, factor, zero if isinstance(zero, Tensor) else int(zero), out_dtype or f32)


@aten("quantized_decomposed.dequantize_per_channel.default")
def dequantize_per_channel(
    x: Tensor, scale: Tensor, zero: Tensor | None, axis: int, least: int, most: int, dtype: DType,
    out_dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """The same with numbers for each index of an axis"""
    return dequantized(x, scale, zero, out_dtype or f32, axis % len(x.shape))
