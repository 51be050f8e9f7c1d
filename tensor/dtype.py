"""Element types: their names, sizes, NumPy counterparts and tolerances."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ..common.elements import NUMPY


class Kind(StrEnum):
    """Says what arithmetic a dtype has."""

    FLOAT = "float"
    BFLOAT = "bfloat"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType:
    """An element type. There is one object for each type, in every process, so that comparing and hashing are cheap.

    `eps` is the unit roundoff times two (0 for exact types). NumPy has no bfloat16: it is carried as `uint16` bit
    patterns.
    """

    name: str
    kind: Kind
    bits: int
    eps: float

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        """True for floating-point types, bfloat16 included."""
        return self.kind in (Kind.FLOAT, Kind.BFLOAT)

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype that holds such elements in memory."""
        return NUMPY[self.name]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return _by_name, (self.name,)


def _by_name(name: str) -> DType:
    """The one object of this name, on the other side of a process boundary."""
    return DTYPES[name]


f64 = DType("f64", Kind.FLOAT, 64, 2.0**-52)
f32 = DType("f32", Kind.FLOAT, 32, 2.0**-23)
f16 = DType("f16", Kind.FLOAT, 16, 2.0**-10)
bf16 = DType("bf16", Kind.BFLOAT, 16, 2.0**-7)
i64 = DType("i64", Kind.SIGNED, 64, 0.0)
i32 = DType("i32", Kind.SIGNED, 32, 0.0)
i16 = DType("i16", Kind.SIGNED, 16, 0.0)
i8 = DType("i8", Kind.SIGNED, 8, 0.0)
u64 = DType("u64", Kind.UNSIGNED, 64, 0.0)
u32 = DType("u32", Kind.UNSIGNED, 32, 0.0)
u16 = DType("u16", Kind.UNSIGNED, 16, 0.0)
u8 = DType("u8", Kind.UNSIGNED, 8, 0.0)
boolean = DType("bool", Kind.BOOL, 1, 0.0)

DTYPES: dict[str, DType] = {t.name: t for t in (f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean)}


def least_finite(dtype: DType) -> float:
    """The least number of f32 or f64 that is not -inf."""
    return float(np.finfo(np.float64 if dtype == f64 else np.float32).min)


def accumulator(dtype: DType) -> DType:
    """The type in which sums, products and scans of elements of a type are accumulated: narrow floats in float32.

    The result is rounded to the element type once, at the end. Integers wrap, so their sums are the same in any order and at
    any moment of narrowing; operators that should not wrap ask for a wider type.
    """
    return f32 if dtype.is_float and dtype.bits < 32 else dtype
