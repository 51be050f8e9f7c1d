"""What a contender has computed, at fixed points of its outputs: so it is compared across processes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...measure.compare.serving import PlainCall
from ...tensor.dtype import DType
from ...tensor.oracle.evaluate import from_memory
from .calls import Array

POINTS = 512


def sample(
    call: PlainCall, outputs: Sequence[Array], dtypes: Sequence[DType], points: int = POINTS
) -> list[list[float]]:
    """Values of each output: those that were written, or were returned by libraries that allocate them.

    Errors: ValueError where what comes back has another shape.
    """
    poison = [np.full(out.nbytes, 0xA5, np.uint8).view(out.dtype).reshape(out.shape) for out in outputs]
    for out, filled in zip(outputs, poison, strict=True):
        out[...] = filled
    result = call()
    if outputs[0].size and np.array_equal(outputs[0].view(np.uint8), poison[0].view(np.uint8)):
        given = list(result) if isinstance(result, list | tuple) else [result]
        for out, one in zip(outputs, given, strict=False):
            found = np.asarray(one.numpy() if hasattr(one, "numpy") else one)
            if found.shape != out.shape:
                raise ValueError(f"it gave an array of shape {found.shape}, not {out.shape}")
            out[...] = found
    return [values_at(out, dtype, points) for out, dtype in zip(outputs, dtypes, strict=True)]


def values_at(array: Array, dtype: DType, points: int = POINTS) -> list[float]:
    """The elements at some points, the same for all arrays of one size."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return [float(value) for value in np.asarray(from_memory(flat[chosen_points(flat.size, points)], dtype))]


def chosen_points(size: int, points: int = POINTS) -> NDArray[np.int64]:
    """int64[points]: the flat positions of a sample."""
    return np.random.default_rng(2).integers(0, size, points)


def difference(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    """The largest difference of two samples, of the largest value of its output; infinite where they are not of one program."""
    if [len(values) for values in one] != [len(values) for values in other]:
        return float("inf")
    worst = 0.0
    for mine, theirs in zip(one, other, strict=True):
        a, b = np.array(mine), np.array(theirs)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            gap = np.where(same, 0.0, np.abs(a - b))
        finite = np.abs(a[np.isfinite(a)])
        scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
        if gap.size:
            worst = max(worst, float(np.nan_to_num(gap, nan=np.inf, posinf=np.inf).max()) / scale)
    return worst
