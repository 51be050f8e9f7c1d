"""What stands in place of a sum of products, by scheme: its stages, and the constants that they read.

int8            f32(sum(x * f32(w8))) * s[j]
int4            sum(x * (f32(w4 - 8) * s[k // 64, j]))
dynamic-int8    f32(sum(i32(x8) * i32(w8))) * (sx[i] * s[j]), sx being found anew at each call
static-int8     the same with scales of the data from calibration; data that are never negative have no sign
bf16            sum(f32(bf16(x)) * f32(w16))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...tensor.dtype import DType, bf16, f16, f32, i8, i32, u8
from ...tensor.expr import Const, Expr, Read, binary, call, const
from ...tensor.oracle.evaluate import from_memory
from ...tensor.program import Axis, Program, Stage, Tensor
from ...tensor.stage_edits import free_name, shape_of
from .numbers import (
    BYTE,
    SMALL_BYTE,
    Array,
    bf16_bits,
    checked,
    half_bytes_as_floats,
    in_bytes,
    in_half_bytes,
    in_small_bytes,
    relative_error,
    scale_of,
)
from .products import WeightedSum

LONGEST = 1 << 16  # products of bytes of one sum: i32 holds all of them
LEAST_GROUP = 16
UNSIGNED = 255  # the largest of 8 bits without a sign


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest number that data have, as calibration has seen them."""

    least: float
    greatest: float

    @property
    def has_sign(self) -> bool:
        """Says whether some number is negative."""
        return self.least < 0

    @property
    def scale(self) -> float:
        """The scale of 8 bits that hold the range."""
        largest = max(abs(self.least), abs(self.greatest))
        return scale_of(largest, BYTE if self.has_sign else UNSIGNED)


@dataclass(frozen=True, slots=True)
class Quantized:
    """The stages in place of a sum. `error`: of its weights, against what they were, in the root mean square."""

    stages: tuple[Stage, ...]
    scheme: str
    error: float


@dataclass
class Quantizer:
    """Writes the stages of one model; what several sums share is made once."""

    program: Program
    values: Mapping[str, Array]
    group: int = 64
    ranges: Mapping[str, Range] = field(default_factory=dict)
    largest: int = BYTE  # of weights in bytes
    constants: dict[str, tuple[Tensor, Array]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _weights: dict[tuple[object, ...], tuple[tuple[Tensor, ...], float]] = field(default_factory=dict)
    _data: dict[tuple[object, ...], tuple[Tensor, ...]] = field(default_factory=dict)

    # ---- schemes ----

    def int8(self, one: WeightedSum) -> Quantized:
        """Weights in bytes, with a scale for each of their rows; data as they are."""
        (weights, scales), error = self._bytes_of(one)
        sums = self._sum(one, one.value * Read(weights.name, one.weights.indices, i8).cast(f32), f32)
        total = Read(sums.name, _points(one), f32) * self._kept(one, scales)
        return Quantized((sums, _pointwise(one, total)), "int8", error)

    def int4(self, one: WeightedSum) -> Quantized:
        """Weights of four bits, in groups of the depth; sums over several axes, or of odd depths, in bytes."""
        group = self._group(one)
        if group is None:
            return self.int8(one)
        assert one.depth is not None
        (weights, scales), error = self._half_bytes_of(one, group)
        k, place = one.depth.var, one.weights.indices.index(one.depth.var)

        def at(index: Expr) -> tuple[Expr, ...]:
            return tuple(index if d == place else own for d, own in enumerate(one.weights.indices))

        byte = Read(weights.name, at(k // 2), u8).cast(i32)
        number = call("select", (k % 2).equal(0), byte % 16, byte // 16) - 8
        weight = number.cast(f32) * Read(scales.name, at(k // group), f16).cast(f32)
        return Quantized((replace(one.stage, bodies=(one.value * weight,)),), f"int4 in groups of {group}", error)

    def dynamic_int8(self, one: WeightedSum) -> Quantized:
        """Weights and data in bytes; scales of data are found at each call, for each row where rows have some."""
        if one.terms > LONGEST:
            return self.int8(one)
        rows = one.rows
        ahead: tuple[Stage, ...] = ()
        key = (one.data.tensor, rows)
        if key not in self._data:
            ahead = self._measured(one.data, rows)
            self._data[key] = ahead[-1].tensors[0], ahead[-2].tensors[0]
        data, scale = self._data[key]
        own = () if rows is None else tuple(one.data.indices[d] for d in rows)
        return self._in_integers(one, data, ahead, "dynamic-int8", Read(scale.name, own, f32), 1.0)

    def static_int8(self, one: WeightedSum) -> Quantized:
        """Weights and data in bytes, all scales being known."""
        seen = self.ranges.get(one.data.tensor)
        if seen is None or one.terms > LONGEST:
            return self.int8(one)
        key, ahead = (one.data.tensor, "static"), []
        if key not in self._data:
            ahead = [self._rounded(one.data, Const(1.0 / seen.scale, f32), i8 if seen.has_sign else u8)]
            self._data[key] = ahead[0].tensors
        return self._in_integers(one, self._data[key][0], tuple(ahead), "static-int8", None, seen.scale)

    def bf16(self, one: WeightedSum) -> Quantized:
        """Weights and data in bfloat16, sums in f32."""
        (weights,), error = self._bf16_of(one)
        ahead: tuple[Stage, ...] = ()
        key = (one.data.tensor, "bf16")
        if one.data.dtype != bf16 and key not in self._data:
            ahead = (self._over(one.data, lambda x: x.cast(bf16), bf16, "bf16"),)
            self._data[key] = ahead[0].tensors
        data = self._data[key][0] if key in self._data else self.program.tensors[one.data.tensor]
        body = self._guarded(one, data).cast(f32) * Read(weights.name, one.weights.indices, bf16).cast(f32)
        return Quantized((*ahead, replace(one.stage, bodies=(body,))), "bf16", error)

    # ---- parts ----

    def _in_integers(
        self, one: WeightedSum, data: Tensor, ahead: tuple[Stage, ...], scheme: str, scale: Read | None, factor: float
    ) -> Quantized:
        (weights, scales), error = self._bytes_of(one, factor)
        body = self._guarded(one, data).cast(i32) * Read(weights.name, one.weights.indices, i8).cast(i32)
        sums = self._sum(one, body, i32)
        both = self._kept(one, scales) if scale is None else scale * self._kept(one, scales)
        total = Read(sums.name, _points(one), i32).cast(f32) * both
        return Quantized((*ahead, sums, _pointwise(one, total)), scheme, error)

    def _guarded(self, one: WeightedSum, data: Tensor) -> Expr:
        read = Read(data.name, one.data.indices, data.dtype)
        if one.guard is None:
            return read
        return call("select", one.guard, read, const(0, data.dtype))

    def _sum(self, one: WeightedSum, body: Expr, dtype: DType) -> Stage:
        name = self._fresh(f"{one.stage.name}_sums")
        return replace(one.stage, tensors=(Tensor(name, dtype, one.stage.tensors[0].shape),), bodies=(body,))

    def _kept(self, one: WeightedSum, scales: Tensor) -> Read:
        return Read(scales.name, tuple(one.weights.indices[d] for d in one.kept), f32)

    def _measured(self, data: Read, rows: tuple[int, ...] | None) -> tuple[Stage, ...]:
        """The largest absolute value of each row (or of all), its scale, and the data in bytes."""
        tensor = self.program.tensors[data.tensor]
        axes = tuple(Axis(f"d{d}", size) for d, size in enumerate(tensor.shape))
        kept = () if rows is None else tuple(axes[d] for d in rows)
        rest = tuple(axis for axis in axes if axis not in kept)
        element = Read(tensor.name, tuple(axis.var for axis in axes), tensor.dtype).cast(f32)
        shape = shape_of(kept)
        largest = Tensor(self._fresh(f"{tensor.name}_largest"), f32, shape)
        scale = Tensor(self._fresh(f"{tensor.name}_scale"), f32, shape)
        own = tuple(axis.var for axis in kept)
        value = binary("max", Read(largest.name, own, f32), 2.0**-100) / float(BYTE)
        stages = (
            Stage((largest,), kept, (call("abs", element),), rest, "max"),
            Stage((scale,), kept, (value,)),
        )
        inverse = Const(1.0, f32) / Read(scale.name, own, f32)
        return (*stages, self._rounded(data, inverse, i8))

    def _rounded(self, data: Read, inverse: Expr, dtype: DType) -> Stage:
        """Data in 8 bits: the nearest multiple of their scale."""
        least, most = (-BYTE, BYTE) if dtype == i8 else (0, UNSIGNED)

        def number(x: Expr) -> Expr:
            whole = call("round", x.cast(f32) * inverse)
            return binary("min", binary("max", whole, float(least)), float(most)).cast(dtype)

        return self._over(data, number, dtype, "bytes")

    def _over(self, data: Read, value: Any, dtype: DType, suffix: str) -> Stage:
        tensor = self.program.tensors[data.tensor]
        axes = tuple(Axis(f"d{d}", size) for d, size in enumerate(tensor.shape))
        made = Tensor(self._fresh(f"{tensor.name}_{suffix}"), dtype, tensor.shape)
        return Stage((made,), axes, (value(Read(tensor.name, tuple(axis.var for axis in axes), tensor.dtype)),))

    # ---- weights ----

    def _floats(self, name: str) -> Array:
        return checked(from_memory(self.values[name], self.program.tensors[name].dtype), name)

    def _bytes_of(self, one: WeightedSum, factor: float = 1.0) -> tuple[tuple[Tensor, ...], float]:
        name = one.weights.tensor
        key = (name, "bytes", one.summed)
        if key not in self._weights:
            values = self._floats(name)
            small = self.largest == SMALL_BYTE
            rounded, scales = (
                in_small_bytes(values, one.summed) if small else in_bytes(values, one.summed, self.largest)
            )
            wide = np.expand_dims(scales.astype(np.float64), one.summed)
            made = self._declared(f"{name}_bytes", rounded, i8)
            self._weights[key] = (
                (made, self._declared(f"{name}_scales", scales, f32)),
                relative_error(values, rounded * wide),
            )
        (weights, scales_), error = self._weights[key]
        if factor == 1.0:
            return (weights, scales_), error
        own = (*key, factor)
        if own not in self._weights:
            scaled = (self.constants[scales_.name][1].astype(np.float64) * factor).astype(np.float32)
            self._weights[own] = (weights, self._declared(f"{name}_scales", scaled, f32)), error
        return self._weights[own]

    def _half_bytes_of(self, one: WeightedSum, group: int) -> tuple[tuple[Tensor, ...], float]:
        assert one.depth is not None
        name, (place,) = one.weights.tensor, one.summed
        key = (name, "half bytes", place, group)
        if key not in self._weights:
            values = self._floats(name)
            packed, scales = in_half_bytes(values, place, group)
            error = relative_error(values, half_bytes_as_floats(packed, scales, place, group))
            made = self._declared(f"{name}_half_bytes", packed, u8), self._declared(f"{name}_scales", scales, f16)
            self._weights[key] = made, error
        return self._weights[key]

    def _bf16_of(self, one: WeightedSum) -> tuple[tuple[Tensor, ...], float]:
        name = one.weights.tensor
        if self.program.tensors[name].dtype == bf16:
            return (self.program.tensors[name],), 0.0
        key = (name, "bf16")
        if key not in self._weights:
            values = self._floats(name)
            bits = bf16_bits(values)
            made = (self._declared(f"{name}_bf16", bits, bf16),)
            self._weights[key] = made, relative_error(values, from_memory(bits, bf16))
        return self._weights[key]

    def _group(self, one: WeightedSum) -> int | None:
        """The longest group that divides the depth, of an even length."""
        if one.depth is None or len(one.summed) != 1:
            return None
        extent = one.depth.extent
        sizes = (size for size in range(min(self.group, extent), LEAST_GROUP - 1, -1))
        return next((size for size in sizes if extent % size == 0 and size % 2 == 0), None)

    def _declared(self, base: str, value: Array, dtype: DType) -> Tensor:
        tensor = Tensor(self._fresh(base), dtype, value.shape)
        self.constants[tensor.name] = tensor, np.ascontiguousarray(value)
        return tensor

    def _fresh(self, base: str) -> str:
        name = free_name(self.program, base, self._taken)
        self._taken.add(name)
        return name


def _points(one: WeightedSum) -> tuple[Expr, ...]:
    return tuple(axis.var for axis in one.stage.axes)


def _pointwise(one: WeightedSum, body: Expr) -> Stage:
    return replace(one.stage, bodies=(body,), reduction=(), combiner=None)
