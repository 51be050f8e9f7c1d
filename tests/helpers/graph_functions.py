"""Functions of tensors held against NumPy and torch: programs of one function, evaluated by the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilesmith import placeholder, program
from tilesmith.graph.functions.elementwise import copy
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Tensor

Array = np.ndarray[Any, Any]
DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16",
          "int8": "i8", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool"}  # fmt: skip


def computed(function: Callable[..., Tensor | Sequence[Tensor]], *arrays: Array) -> list[Array]:
    """What a function of tensors gives for arrays, by the oracle."""
    tensors = [placeholder(a.shape, DTYPES[a.dtype.name], f"x{n}") for n, a in enumerate(arrays)]
    made = function(*tensors)
    outputs = [copy(t) for t in ([made] if isinstance(made, Tensor) else made)]
    return list(evaluate(program(outputs, inputs=tensors), arrays))


def holds(
    function: Callable[..., Tensor | Sequence[Tensor]], expected: Any, *arrays: Array, close: float = 1e-9
) -> None:
    """Asserts that a function gives what is expected: an array or tensor, or several, of the same shapes and dtypes."""
    wanted = list(expected) if isinstance(expected, tuple | list) else [expected]
    found = computed(function, *arrays)
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        truth = np.asarray(want)
        assert got.shape == truth.shape
        assert (got.dtype.kind == "f") == (truth.dtype.kind == "f"), (got.dtype, truth.dtype)
        close = max(close, 1e-6) if truth.dtype == np.float32 else close
        np.testing.assert_allclose(got.astype(np.float64), truth.astype(np.float64), rtol=close, atol=close)


def numbers(*shape: int, seed: int = 0, dtype: str = "float64") -> Array:
    """Random numbers of both signs; small integers; fair bools."""
    generator = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return generator.random(shape) < 0.5
    if np.dtype(dtype).kind in "iu":
        return generator.integers(-4 if dtype[0] == "i" else 0, 5, shape).astype(dtype)
    return np.asarray(generator.standard_normal(shape), dtype)
