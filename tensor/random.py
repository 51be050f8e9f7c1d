"""Random inputs for programs: seeded, of both signs, exactly representable in the input's dtype."""

from __future__ import annotations

import numpy as np

from .dtype import DType, Kind
from .evaluate import Array
from .program import Program

_INTEGERS = 8  # small, so that products of integers stay in range and data-dependent indices repeat


def random_inputs(program: Program, seed: int = 0) -> tuple[Array, ...]:
    """One C-contiguous array for each input, in order, in its memory dtype.

    Floats are uniform in [-1, 1), integers in [-8, 8] ([0, 8] unsigned), bools fair. The same seed gives the same arrays for
    the same shapes and dtypes, whatever the names.
    """
    return tuple(
        random_array(item.tensor.shape, item.tensor.dtype, np.random.default_rng([seed, number]))
        for number, item in enumerate(program.inputs)
    )


def random_array(shape: tuple[int, ...], dtype: DType, generator: np.random.Generator) -> Array:
    """One random array, as above. bfloat16 comes as uint16 bit patterns."""
    return np.asarray(_drawn(shape, dtype, generator))  # arithmetic on arrays of rank 0 leaves scalars


def _drawn(shape: tuple[int, ...], dtype: DType, generator: np.random.Generator) -> Array:
    if dtype.kind is Kind.BOOL:
        return generator.random(shape) < 0.5
    if dtype.is_integer:
        low = -_INTEGERS if dtype.kind is Kind.SIGNED else 0
        return generator.integers(low, _INTEGERS + 1, shape, dtype=dtype.numpy)
    values = generator.random(shape, dtype=np.float32) * np.float32(2) - np.float32(1)
    if dtype.name == "f64":
        return values.astype(np.float64) + generator.random(shape) * 2.0**-24
    if dtype.kind is Kind.BFLOAT:  # cut off after 7 bits of fraction
        return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).reshape(shape)
    return values.astype(dtype.numpy)
