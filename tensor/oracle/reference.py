"""The oracle: what a program computes, in float64, whole or at given points.

Stages are evaluated over blocks of points, so that memory stays bounded. With `absolute=True` the answer is not the value
but its magnitude: the error that a correct kernel may make, in units of the output's eps (evaluate.py says how it is
bounded). A tolerance is FACTOR times eps times this magnitude. A sum of n terms is off by about
eps * (sum |x| + sqrt(n) |sum x|), in whatever order it is done (Higham and Mary, A new approach to probabilistic rounding
error analysis, 2019); for a matrix product this is the same product over absolute values. This eps is that of the type in
which the sum is accumulated: sums of narrow floats are off by float32's, and by one rounding to their own type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...common.errors import ArgumentError
from ..dtype import DType, u64
from ..program import Program
from .evaluate import Pair, store_type
from .evaluator import Evaluator
from .roundings import FACTOR, Array, least_normal

Bounded = tuple[Array, NDArray[np.float64]]  # values as `evaluate` gives them, and the tolerance of each


def evaluate(program: Program, inputs: Sequence[Array], absolute: bool = False) -> tuple[Array, ...]:
    """All outputs, in order.

    Args:
        inputs: arrays in the order of `program.inputs`, constants among them, in the inputs' memory dtypes.
        absolute: magnitudes (see the head of this file) instead of values.

    Returns: float64 arrays for floats, int64 for integers (uint64 for u64), bool for bool; magnitudes are always float64.
    Errors: ArgumentError for inputs of the wrong number, shape or dtype.
    """
    check_inputs(program, inputs)
    evaluator = Evaluator(program, inputs, absolute)
    with np.errstate(all="ignore"):
        pairs = [evaluator.whole(name) for name in program.outputs]
    return tuple(
        _answer(pair, program.tensors[name].dtype, absolute) for name, pair in zip(program.outputs, pairs, strict=True)
    )


def evaluate_at(
    program: Program, inputs: Sequence[Array], output: str, points: NDArray[np.int64], absolute: bool = False
) -> Array:
    """The elements of `output` at `points` (int64[n, rank]) as an array of n, evaluating only what they need.

    Otherwise as `evaluate`.
    """
    tensor = program.tensors[output]
    places = np.asarray(points, dtype=np.int64)
    if places.ndim != 2 or places.shape[1] != len(tensor.shape):
        raise ArgumentError(
            f"points of {output} need one row each", expected=f"[n, {len(tensor.shape)}]", found=str(list(places.shape))
        )
    if places.size and (np.any(places < 0) or np.any(places >= np.array(tensor.shape))):
        raise ArgumentError(f"points outside of {output}", expected=f"indices within {list(tensor.shape)}")
    check_inputs(program, inputs)
    evaluator = Evaluator(program, inputs, absolute)
    with np.errstate(all="ignore"):
        pair = evaluator.fetch(output, [places[:, d] for d in range(places.shape[1])])
    value, error = (None if part is None else np.broadcast_to(part, (places.shape[0],)) for part in pair)
    assert value is not None
    return _answer((value, error), tensor.dtype, absolute)


def bounded(program: Program, inputs: Sequence[Array]) -> tuple[Bounded, ...]:
    """All outputs, and how far a kernel may be from them: `evaluate` of both kinds in one go."""
    check_inputs(program, inputs)
    evaluator = Evaluator(program, inputs, True)
    with np.errstate(all="ignore"):
        return tuple(_bounded(evaluator.whole(name), program.tensors[name].dtype) for name in program.outputs)


def bounded_at(program: Program, inputs: Sequence[Array], output: str, places: NDArray[np.int64]) -> Bounded:
    """Elements of one output at flat positions (int64[n]), and how far a kernel may be from them; only what they need is
    evaluated."""
    check_inputs(program, inputs)
    tensor = program.tensors[output]
    evaluator = Evaluator(program, inputs, True)
    indices = np.unravel_index(places, tensor.shape) if tensor.shape else ()
    with np.errstate(all="ignore"):
        value, error = evaluator.fetch(output, indices)
        pair = np.broadcast_to(value, places.shape), None if error is None else np.broadcast_to(error, places.shape)
        return _bounded(pair, tensor.dtype)


def tolerances(magnitude: Array, dtype: DType) -> NDArray[np.float64]:
    """Tells how far a kernel may be from the truth, as float64: 0 for exact types, infinite where nothing can be said."""
    if not dtype.is_float:
        return np.zeros(magnitude.shape)
    wide = FACTOR * dtype.eps * magnitude + least_normal(dtype)
    return np.asarray(np.where(np.isnan(wide), np.inf, wide))


def _bounded(pair: Pair, dtype: DType) -> Bounded:
    values = _answer(pair, dtype, False)
    if dtype.is_float:
        return values, tolerances(_answer(pair, dtype, True), dtype)
    error = np.zeros(()) if pair[1] is None else FACTOR * pair[1]
    return values, np.broadcast_to(np.where(np.isnan(error), np.inf, error), values.shape)


def check_inputs(program: Program, inputs: Sequence[Array]) -> None:
    """Raises ArgumentError unless `inputs` are arrays of the program's inputs, in order."""
    if len(inputs) != len(program.inputs):
        raise ArgumentError(
            "the wrong number of arrays", expected=f"{len(program.inputs)}", found=f"{len(inputs)}",
            advice="give one for each input, constants included, in order",
        )  # fmt: skip
    for item, array in zip(program.inputs, inputs, strict=True):
        tensor = item.tensor
        if array.shape != tensor.shape or array.dtype != tensor.dtype.numpy:
            raise ArgumentError(
                f"the array for {tensor.name} does not fit",
                expected=f"{tensor.dtype.numpy}{list(tensor.shape)}", found=f"{array.dtype}{list(array.shape)}",
            )  # fmt: skip


def _answer(pair: Pair, dtype: DType, absolute: bool) -> Array:
    value, error = pair
    if not absolute:
        return value.astype(np.int64 if dtype.is_integer and dtype != u64 else store_type(dtype))
    if not dtype.is_float:
        return np.abs(value.astype(np.float64))
    return np.zeros(value.shape) if error is None else np.broadcast_to(error / dtype.eps, value.shape).copy()
