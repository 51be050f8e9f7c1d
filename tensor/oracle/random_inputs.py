"""Random inputs for programs: seeded, of both signs, exactly representable in the input's dtype."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import numpy as np

from ..dtype import DType, Kind
from ..indices.operator_ranges import Interval, range_of
from ..indices.ranges import index_ranges
from ..program import Program
from .roundings import Array

_INTEGERS = 8  # small, so that products of integers stay in range and data-dependent indices repeat


class Magnitudes(StrEnum):
    """Says how large random numbers are, where the usual ones would tell nothing."""

    USUAL = "usual"  # floats uniform in [-1, 1), integers in [-8, 8] ([0, 8] unsigned)
    NEAR_ONE = "near one"  # floats of 7/8 to 9/8 and both signs, odd integers: products of many do not vanish
    WHOLE = "whole"  # integers of 8 bits take all of their values, so that sums of their products are large
    FEW = "few"  # floats that are multiples of 1/2 in [-4, 4): 0 and equal ones among them, and beyond most bounds


def random_inputs(program: Program, seed: int = 0, sizes: Magnitudes = Magnitudes.USUAL) -> tuple[Array, ...]:
    """One C-contiguous array for each input, in order, in its memory dtype.

    Bools are fair. Integers that are used as indices are uniform in the range that the program's clamps declare
    (indices/ranges.py). The same seed gives the same arrays for the same shapes, dtypes, ranges and sizes, whatever the names.
    """
    return tuple(named_inputs(program, [item.tensor.name for item in program.inputs], seed, sizes).values())


def named_inputs(
    program: Program, names: Collection[str], seed: int = 0, sizes: Magnitudes = Magnitudes.USUAL
) -> dict[str, Array]:
    """The arrays of `random_inputs` that have one of these names, by name; the others are not drawn."""
    ranges = index_ranges(program)
    made = {}
    for number, item in enumerate(program.inputs):
        tensor, generator = item.tensor, np.random.default_rng([seed, number])
        if tensor.name not in names:
            continue
        if tensor.name in ranges:
            made[tensor.name] = random_indices(tensor.shape, tensor.dtype, generator, ranges[tensor.name])
        else:
            made[tensor.name] = random_array(tensor.shape, tensor.dtype, generator, sizes)
    return made


def random_indices(shape: tuple[int, ...], dtype: DType, generator: np.random.Generator, within: Interval) -> Array:
    """One array of integers uniform in a range, both ends included."""
    low, high = within
    return np.asarray(generator.integers(low, high, shape, dtype=dtype.numpy, endpoint=True))


def random_array(
    shape: tuple[int, ...], dtype: DType, generator: np.random.Generator, sizes: Magnitudes = Magnitudes.USUAL
) -> Array:
    """Draws one array as `random_inputs` does. bfloat16 comes as uint16 bit patterns."""
    return np.asarray(_drawn(shape, dtype, generator, sizes))  # arithmetic on arrays of rank 0 leaves scalars


def _drawn(shape: tuple[int, ...], dtype: DType, generator: np.random.Generator, sizes: Magnitudes) -> Array:
    if dtype.kind is Kind.BOOL:
        return generator.random(shape) < 0.5
    if dtype.is_integer:
        low = -_INTEGERS if dtype.kind is Kind.SIGNED else 0
        most = _INTEGERS
        if sizes is Magnitudes.WHOLE and dtype.bits == 8:
            low, most = range_of(dtype)
        integers = generator.integers(low, most, shape, dtype=dtype.numpy, endpoint=True)
        return integers | 1 if sizes is Magnitudes.NEAR_ONE else integers
    values = generator.random(shape, dtype=np.float32) * np.float32(2) - np.float32(1)
    if sizes is Magnitudes.NEAR_ONE:
        values = np.copysign(
            np.float32(1) + values / np.float32(8), generator.random(shape, dtype=np.float32) - np.float32(0.5)
        )
    elif sizes is Magnitudes.FEW:
        values = np.floor(values * np.float32(8)) / np.float32(2)
    if dtype.name == "f64" and sizes is not Magnitudes.FEW:
        return values.astype(np.float64) + generator.random(shape) * 2.0**-24
    if dtype.kind is Kind.BFLOAT:  # cut off after 7 bits of fraction
        return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).reshape(shape)
    return values.astype(dtype.numpy)
