"""How much an operation of a kernel may round: the units of the error bounds of evaluate.py.

A kernel may be off by FACTOR times the bound. That is the room which float32 and float64 need, where a schedule chooses the
order of sums and what is fused: there an operation counts eps * |value|. Narrow floats need none. What is computed in
float32 is rounded to them once, and is off by half a unit at most, of whatever size sums are: so that rounding counts
half of eps, divided by FACTOR.

Below the normal numbers of a type its last place is that of the least of them, however small a value is: what is multiplied,
divided, converted or a result of a function may lose a share of that place (`LEAST`). Sums lose nothing there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dtype import DType, Kind, accumulator

Array = NDArray[Any]

FACTOR = 4.0
NUMPY_ULP = 4.0  # that NumPy's own functions of float64 may be off, where they are vectorised
LEAST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}  # subnormal numbers, and places


def rounding(value: Array, dtype: DType, times: float = 1.0) -> Array:
    """Returns what an operation of `dtype` may add: `times` roundings of the type in which it is computed, and one to a narrow
    type. Nothing for infinities, which are exact. What is lost below the normal numbers is apart: `lost_below`."""
    computed = accumulator(dtype)
    narrow = 0.0 if computed == dtype else dtype.eps / (2 * FACTOR)
    bound: Array = (times * computed.eps + narrow) * np.abs(value)
    return bound if np.isfinite(bound).all() else np.where(np.isfinite(bound), bound, 0.0)


def lost_below(dtype: DType, times: float = 1.0) -> float:
    """Returns what `times` roundings may lose of numbers so small that they are subnormal; half a place for that to a narrow
    type."""
    computed = accumulator(dtype)
    narrow = 0.0 if computed == dtype else LEAST[dtype.name] / (2 * FACTOR)
    return times * LEAST.get(computed.name, 0.0) + narrow


def least_normal(dtype: DType) -> float:
    """The least normal number of the type in which a type is computed. What is less, a kernel may flush to zero; all that is
    subnormal in float16 is normal in float32."""
    computed = accumulator(dtype)
    return LEAST[computed.name] / computed.eps


def rounded_error(
    passed: Array | None, value: Array, dtype: DType, times: float = 1.0, lost: float | None = None
) -> Array:
    """The error of a value after an operation that rounds it: `passed` is that before. What is off is rounded too.

    Args:
        lost: what may be lost of subnormal numbers, if not what `times` roundings lose. A zero that is exact loses nothing.
    """
    own = rounding(value, dtype, times)
    least = lost_below(dtype, times) if lost is None else lost
    if least:
        inexact = value != 0 if passed is None else (value != 0) | (passed > 0)
        own = own + least * inexact
    if passed is None:
        return own
    return own + (passed if accumulator(dtype) == dtype else passed * (1 + dtype.eps))


def roundings_of(ulp: tuple[float, float], dtype: DType) -> float:
    """Says how many roundings of the type in which `dtype` is computed make room for code that is off by `ulp` (f32, f64)
    units: at least one, that of an operation which gives the nearest number. In f64 the oracle may be off itself."""
    in_f32, in_f64 = ulp
    if accumulator(dtype).name == "f32":
        return max(1.0, in_f32 / FACTOR)
    return max(1.0, (in_f64 + NUMPY_ULP) / FACTOR) if in_f64 > 0.5 else 1.0


def representable(value: Array, dtype: DType) -> NDArray[np.bool_]:
    """Says which numbers, as float64, a type of floats holds as they are."""
    if dtype.name == "f64":
        return np.ones(np.shape(value), np.bool_)
    return np.asarray((nearest(value, dtype) == value) | np.isnan(value))


def nearest(value: Array, dtype: DType) -> Array:
    """Float64 numbers rounded to a type of floats, by way of float32 to bfloat16."""
    with np.errstate(over="ignore", invalid="ignore"):
        bf16 = dtype.kind is Kind.BFLOAT
        held = bf16_bits(value).view(np.float32) if bf16 else np.asarray(value).astype(dtype.numpy)
    return np.asarray(held, np.float64)


def literal_error(values: Array, dtype: DType) -> Array | None:
    """The error of literals, which a type holds as they are or rounded."""
    if not dtype.is_float:
        return None
    exact = representable(values, dtype)
    return None if exact.all() else np.where(exact, 0.0, rounded_error(None, values, dtype))


def bf16_bits(values: Array) -> NDArray[np.uint32]:
    """The bits of values as f32 with the upper half rounded to bfloat16 and the lower half zero."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(values), bits | np.uint32(0x400000), rounded) & np.uint32(0xFFFF0000)
