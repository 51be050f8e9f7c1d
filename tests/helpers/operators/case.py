"""What a case of an operator is: arguments, and what the operator means in NumPy or SciPy, written without looking at ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.program import Program

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """`truth` takes float64 (int64, bool) arrays, one for each input, and gives the output, or a tuple of outputs.

    `change`: what becomes of each random input, where random numbers as they are do not reach what an operator does.
    """

    operator: str
    arguments: Mapping[str, object] = field(hash=False)
    truth: Callable[..., Array | tuple[Array, ...]]
    change: Callable[[Array], Array] | None = None

    @property
    def name(self) -> str:
        named = f"{self.operator}-" + ",".join(f"{k}={_shown(v)}" for k, v in self.arguments.items())
        return named if self.change is None else f"{named}-{self.change.__name__}"

    def inputs(self, program: Program, seed: int) -> tuple[Array, ...]:
        """Inputs of the case's program, as they lie in memory."""
        drawn = random_inputs(program, seed)
        if self.change is None:
            return drawn
        return tuple(np.ascontiguousarray(self.change(x), dtype=x.dtype) for x in drawn)

    def program(self, **changes: object) -> Program:
        return _program(self, **changes)


@cache  # many tests ask for the same ones, some of them while they are collected
def _program(case: Case, **changes: object) -> Program:
    return ops.find_operator(case.operator)(**{**case.arguments, **changes})


def eightfold(x: Array) -> Array:
    """Floats of [-8, 8): beyond every bound."""
    return x * 8


def rounded(x: Array) -> Array:
    """Few values: 0 and pairs of equal ones among them."""
    return np.rint(x * 2)


def mostly_zero(x: Array) -> Array:
    """1 in 16 elements is left."""
    return np.where(np.arange(x.size).reshape(x.shape) % 16 == 5, x, np.zeros((), x.dtype))


def with_specials(x: Array) -> Array:
    """NaN, infinities of both signs and zeros of both signs among the others, at other places in each line."""
    specials = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    order = (np.arange(x.size) * 7 + int(x.flat[0] > 0)).reshape(x.shape) % 11
    return np.where(order < len(specials), specials[order % len(specials)], x)


def widened(array: Array) -> Array:
    """As `truth` takes it."""
    return (
        array.astype(np.float64)
        if array.dtype.kind == "f"
        else array.astype(np.int64 if array.dtype.kind in "iu" else bool)
    )


def _shown(value: object) -> str:
    return "x".join(map(_shown, value)) if isinstance(value, tuple) else str(value)
