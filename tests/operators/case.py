"""What a case of an operator is: arguments, and what the operator means in NumPy or SciPy, written without looking at ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """`truth` takes float64 (int64, bool) arrays, one for each input, and gives the output, or a tuple of outputs."""

    operator: str
    arguments: Mapping[str, object] = field(hash=False)
    truth: Callable[..., Array | tuple[Array, ...]]

    @property
    def name(self) -> str:
        return f"{self.operator}-" + ",".join(f"{k}={_shown(v)}" for k, v in self.arguments.items())

    def program(self, **changes: object) -> Program:
        return ops.find_operator(self.operator)(**{**self.arguments, **changes})


def widened(array: Array) -> Array:
    """As `truth` takes it."""
    return (
        array.astype(np.float64)
        if array.dtype.kind == "f"
        else array.astype(np.int64 if array.dtype.kind in "iu" else bool)
    )


def _shown(value: object) -> str:
    return "x".join(map(_shown, value)) if isinstance(value, tuple) else str(value)
