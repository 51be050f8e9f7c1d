"""How NumPy holds elements of each type in memory, by the names of types: all that those need who only hand arrays over."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

_SCALARS: dict[str, type[np.generic]] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,  # NumPy has no bfloat16: bit patterns
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u64": np.uint64,
    "u32": np.uint32,
    "u16": np.uint16,
    "u8": np.uint8,
    "bool": np.bool_,
}
NUMPY: Mapping[str, np.dtype[Any]] = MappingProxyType({name: np.dtype(scalar) for name, scalar in _SCALARS.items()})
