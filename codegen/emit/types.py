"""How dtypes look in LLVM: types of values, types in memory, literals.

Two dtypes differ between memory and values. A bool is a byte in memory and an i1 as a value. LLVM has good code for bfloat16
on few processors only, so a bf16 is a 16-bit pattern in memory and, as a value, a float whose low 16 bits are zero: widening
costs nothing and only results are rounded.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import NamedTuple

from ...tensor.dtype import DType, Kind, bf16, boolean, f16, f32


class Value(NamedTuple):
    """An SSA name or a literal. `lanes` is 0 for a scalar; one-lane vectors do not occur."""

    text: str
    dtype: DType
    lanes: int = 0

    @property
    def is_literal(self) -> bool:
        """True for a constant written in place."""
        return self.text[0] != "%"

    @property
    def type(self) -> str:
        """The LLVM type."""
        return value_type(self.dtype, self.lanes)

    @property
    def typed(self) -> str:
        """Type and name, as operands are written."""
        return f"{value_type(self.dtype, self.lanes)} {self.text}"


TRUE = Value("true", boolean)
FALSE = Value("false", boolean)

_TYPES: dict[tuple[str, int], str] = {}
_SCALARS = {"f64": "double", "f32": "float", "f16": "half", "bf16": "float", "bool": "i1"}
_SUFFIXES = {"f64": "f64", "f32": "f32", "f16": "f16", "bf16": "f32", "bool": "i1"}


@cache
def value_type(dtype: DType, lanes: int = 0) -> str:
    """The type of a value: `float`, `<16 x float>`."""
    return vector(_SCALARS.get(dtype.name, f"i{dtype.bits}"), lanes)


@cache
def memory_type(dtype: DType, lanes: int = 0) -> str:
    """The type in memory; its size is the dtype's."""
    scalar = {"bool": "i8", "bf16": "i16"}.get(dtype.name, _SCALARS.get(dtype.name, f"i{dtype.bits}"))
    return vector(scalar, lanes)


def vector(scalar: str, lanes: int) -> str:
    """A vector type, or the scalar one for 0 lanes."""
    return f"<{lanes} x {scalar}>" if lanes else scalar


@cache
def suffix(dtype: DType, lanes: int = 0) -> str:
    """Says how intrinsic names end for values of this type: `v16f32`."""
    scalar = _SUFFIXES.get(dtype.name, f"i{dtype.bits}")
    return f"v{lanes}{scalar}" if lanes else scalar


def literal(value: int | float | bool, dtype: DType) -> str:
    """A scalar literal, exact; integers wrap to the width of the dtype and floats are rounded to it."""
    if dtype == boolean:
        return "true" if value else "false"
    if dtype.kind in (Kind.SIGNED, Kind.UNSIGNED):
        wrapped = int(value) & ((1 << dtype.bits) - 1)
        return str(wrapped - (1 << dtype.bits) if wrapped >> (dtype.bits - 1) else wrapped)
    number = float(value)
    if dtype == f16:
        return f"0xH{struct.unpack('<H', _packed('<e', number))[0]:04X}"
    if dtype == bf16:
        number = round_to_bf16(number)
    elif dtype == f32:
        number = struct.unpack("<f", _packed("<f", number))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def memory_literal(value: int | float | bool, dtype: DType) -> str:
    """A scalar literal of the type in memory."""
    if dtype == boolean:
        return "1" if value else "0"
    if dtype == bf16:
        return str(struct.unpack("<I", struct.pack("<f", round_to_bf16(float(value))))[0] >> 16)
    return literal(value, dtype)


def round_to_bf16(number: float) -> float:
    """The nearest bfloat16, ties to even; NaN stays NaN and what is too large becomes infinite."""
    bits: int = struct.unpack("<I", _packed("<f", number))[0]
    if not math.isnan(number):
        bits += 0x7FFF + (bits >> 16 & 1)
    rounded: float = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]
    return rounded


def _packed(layout: str, number: float) -> bytes:
    try:
        return struct.pack(layout, number)
    except OverflowError:
        return struct.pack(layout, math.copysign(math.inf, number))


def identity(combiner: str, dtype: DType) -> str:
    """The literal e with combiner(e, x) == x for all x."""
    if combiner == "sum":
        return literal(-0.0 if dtype.is_float else 0, dtype)
    if combiner == "prod":
        return literal(1, dtype)
    low = combiner == "max"
    if dtype.is_float:
        return literal(-math.inf if low else math.inf, dtype)
    if dtype == boolean:
        return literal(not low, dtype)
    if dtype.kind is Kind.UNSIGNED:
        return literal(0 if low else 2**dtype.bits - 1, dtype)
    return literal(-(2 ** (dtype.bits - 1)) if low else 2 ** (dtype.bits - 1) - 1, dtype)
