"""Numbers in few bits: rounding to the nearest multiple of a scale, symmetrically around zero.

A scale is what makes the largest number of its block the largest integer; a block without numbers has the scale 1. Whatever
is no number, or infinite, is refused: it would have no scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...common.errors import ArgumentError

Array = np.ndarray[Any, Any]
BYTE = 127  # the largest of 8 bits with a sign
SMALL_BYTE = 64  # of 7 bits with a sign, and one more: what sums of two products with 255 hold in 16 bits
HELD = 128  # the most that some weights have above zero, or below: what sums of their products with 255 hold in 16 bits
BLOCK = 8  # elements of the depth in two words of bytes, of which halves of sums take four each
HALF_BYTE = 7  # of 4 bits; the least, -8, stays free


def checked(values: Array, name: str) -> Array:
    """The values in float64. Errors: ArgumentError where one is no finite number."""
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise ArgumentError(
            f"{name} cannot be quantised", expected="finite numbers", found=f"{int((~np.isfinite(wide)).sum())} others"
        )
    return wide


def in_bytes(values: Array, summed: Sequence[int], most: int = BYTE) -> tuple[Array, Array]:
    """(i8, scales of the dimensions that are not summed up) of weights, of which the largest becomes `most`."""
    return _rounded(values, summed, np.abs(values).max(axis=tuple(summed), keepdims=True), most)


def _rounded(values: Array, summed: Sequence[int], largest: Array, most: int) -> tuple[Array, Array]:
    """The same where numbers as large as `largest` become `most`."""
    scales = _scales(largest, most)
    rounded = np.clip(np.rint(values / scales), -most, most).astype(np.int8)
    return rounded, scales.squeeze(axis=tuple(summed)).astype(np.float32)


def in_small_bytes(values: Array, summed: Sequence[int]) -> tuple[Array, Array]:
    """The same of weights up to 64, whose scales leave room for sums of products in 16 bits (`largest_together`)."""
    depth = max(summed, key=lambda d: values.shape[d])  # that of words
    if values.shape[depth] % BLOCK:
        return in_bytes(values, summed, SMALL_BYTE)
    largest = np.abs(values).max(axis=tuple(summed), keepdims=True)
    while True:
        rounded, scales = _rounded(values, summed, largest, SMALL_BYTE)
        over = largest_together(rounded, depth).max(axis=tuple(summed), keepdims=True) / HELD
        if over.max() <= 1.0:
            return rounded, scales
        largest = largest * np.where(over > 1.0, over, 1.0)


def largest_together(rounded: Array, depth: int) -> Array:
    """Sums of the four weights that meet in a half of two words, of those above zero or of those below, whichever is more. The
    depth counts blocks of two words; of both halves it is the larger one."""
    moved = np.moveaxis(rounded, depth, -1).astype(np.int64)
    blocks = moved.reshape(*moved.shape[:-1], -1, 2, 2, 2)
    sides = [np.maximum(side, 0).sum(axis=(-3, -1)) for side in (blocks, -blocks)]
    return np.moveaxis(np.maximum(*sides).max(axis=-1), -1, depth)


def in_half_bytes(values: Array, depth: int, group: int) -> tuple[Array, Array]:
    """(u8, f16 scales): two numbers to a byte along a dimension, the first one low, 8 being zero; a scale for each group."""
    moved = np.moveaxis(values, depth, -1)
    blocks = moved.reshape(*moved.shape[:-1], moved.shape[-1] // group, group)
    half = _scales(np.abs(blocks).max(axis=-1, keepdims=True), HALF_BYTE).astype(np.float16)
    half = np.maximum(half, np.float16(2.0**-14))  # no scale is so small that f16 rounds it to zero
    rounded = np.clip(np.rint(blocks / half.astype(np.float64)), -HALF_BYTE, HALF_BYTE) + 8
    flat = rounded.reshape(moved.shape).astype(np.uint8)
    packed = flat[..., 0::2] + (flat[..., 1::2] << 4)
    return tuple(np.ascontiguousarray(np.moveaxis(a, -1, depth)) for a in (packed, half.squeeze(-1)))  # type: ignore[return-value]


def half_bytes_as_floats(packed: Array, scales: Array, depth: int, group: int) -> Array:
    """The floats that `in_half_bytes` stands for."""
    low, high = (np.moveaxis(part, depth, -1) for part in (packed % 16, packed // 16))
    numbers = np.stack([low, high], axis=-1).reshape(*low.shape[:-1], -1).astype(np.float64) - 8
    wide = np.repeat(np.moveaxis(scales.astype(np.float64), depth, -1), group, axis=-1)
    return np.moveaxis(numbers * wide, -1, depth)


def bf16_bits(values: Array) -> Array:
    """The nearest bfloat16, as their bits."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def scale_of(largest: float, most: int) -> float:
    """The scale of data whose largest absolute value is known."""
    return float(_scales(np.array(largest, np.float64), most))


def relative_error(before: Array, after: Array) -> float:
    """The root mean square of what differs, of that of the values."""
    old, new = before.astype(np.float64), after.astype(np.float64)
    size = float(np.sqrt(np.mean(old**2)))
    return float(np.sqrt(np.mean((old - new) ** 2))) / size if size else 0.0


def _scales(largest: Array, most: int) -> Array:
    return np.where(largest > 0, np.maximum(largest, 2.0**-100) / most, 1.0)
