"""Reductions at computed places for the oracle: each term is evaluated once, and goes to its place. Equal to the general path,
which asks each place about each term."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as cartesian

import numpy as np
from numpy.typing import NDArray

from ..dtype import accumulator
from ..identity import identity
from ..indices.scatter import Scattered
from ..program import Axis, Stage
from .blocks import COMBINE, BlockBox, boxes, sizes_of
from .errors import of_finite
from .evaluate import EvaluationScope, Pair, evaluate_expr, store_type
from .roundings import FACTOR, Array

REACH = 4  # places on either side that a term may belong to instead: farther, the general path tells
Mesh = Callable[[Sequence[Axis], BlockBox], EvaluationScope]


def placed(stage: Stage, found: Scattered, mesh: Mesh, errors: bool) -> Pair | None:
    """The value and the error of a whole reduction, before that of its sums is added (`finished`); None where only the general
    path can tell: products that are off, extremes that may belong elsewhere."""
    sums = _Sums(stage, found, errors)
    axes = [axis for axis in stage.all_axes if axis.name not in found.places]
    for box in boxes([axis.extent for axis in axes]):
        if not sums.add(mesh(axes, box), axes, box):
            return None
    return sums.result()


class _Sums:
    """Holds what has been combined so far. `error`: of sums; `ends`: how small and how large each extreme may be."""

    def __init__(self, stage: Stage, found: Scattered, errors: bool) -> None:
        self.stage, self.found = stage, found
        self.combiner = stage.combiner or ""
        self.dtype = stage.bodies[0].dtype
        self.shape = tuple(axis.extent for axis in stage.axes)
        first = identity(self.combiner, self.dtype).value
        self.value = np.full(self.shape, first, store_type(self.dtype)).reshape(-1)
        self.errors = errors
        self.error = np.zeros(self.value.shape)
        self.ends = [np.full(self.value.shape, first, np.float64) for _ in range(2)]

    def add(self, scope: EvaluationScope, axes: Sequence[Axis], box: BlockBox) -> bool:
        """Combines the terms of a block; False where that cannot be said here."""
        sizes = sizes_of(box)
        counts, unsure = self._counts(scope, sizes)
        places, reach, moved = self._places(scope, sizes)
        unsure = unsure | moved
        value, own = evaluate_expr(self.found.value, scope)
        value = np.broadcast_to(value, sizes)
        off = None if own is None else np.broadcast_to(own, sizes)
        narrow = self.dtype.is_float and accumulator(self.dtype) != self.dtype
        is_off = off is not None and bool(off.any())
        if reach > REACH or (is_off and narrow) or ((is_off or unsure.any()) and self.combiner == "prod"):
            return False
        if unsure.any() and self.combiner != "sum":
            return False
        flat, there = self._flat(scope, axes, sizes, places, counts)
        COMBINE[self.combiner].at(self.value, flat, value[there])
        if self.errors and (self.dtype.is_float or is_off):
            self._add_errors(flat, value[there], None if off is None else off[there])
        if unsure.any():
            self._add_doubts(
                scope, axes, sizes, places, unsure, np.abs(value) / FACTOR + (0.0 if off is None else off), reach
            )
        return True

    def _counts(self, scope: EvaluationScope, sizes: Sequence[int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Says which terms count, and of which that is not sure."""
        counts, unsure = np.ones(sizes, bool), np.zeros(sizes, bool)
        for guard in self.found.guards:
            value, error = evaluate_expr(guard, scope)
            counts = counts & value
            unsure = unsure if error is None else unsure | (error > 0)
        return counts, unsure

    def _places(self, scope: EvaluationScope, sizes: Sequence[int]) -> tuple[dict[str, Array], int, NDArray[np.bool_]]:
        """The place of each term along each axis; how far it may be off at most, and which are."""
        places: dict[str, Array] = {}
        reach, unsure = 0, np.zeros(sizes, bool)
        for axis, place in self.found.places.items():
            value, error = evaluate_expr(place, scope)
            places[axis] = np.broadcast_to(value, sizes)
            if error is not None and (error > 0).any():
                reach = max(reach, int(min(np.ceil(FACTOR * error.max()), REACH + 1)))
                unsure = unsure | (error > 0)
        return places, reach, unsure

    def _flat(
        self, scope: EvaluationScope, axes: Sequence[Axis], sizes: Sequence[int], places: dict[str, Array],
        counts: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:  # fmt: skip
        """Elements of the result, in order, for the terms that meet one; and which these are."""
        there = counts
        for axis, place in places.items():
            there = there & (place >= 0) & (place < self.stage.axis(axis).extent)
        index = [
            (places[a.name] if a.name in places else np.broadcast_to(scope.axes[a.name], sizes))[there]
            for a in self.stage.axes
        ]
        return np.ravel_multi_index(tuple(index), self.shape), there

    def _add_errors(self, flat: NDArray[np.int64], value: Array, off: Array | None) -> None:
        own = np.zeros(value.shape) if off is None else off
        if self.combiner == "sum":
            rounded = accumulator(self.dtype).eps * np.abs(value) if self.dtype.is_float else 0.0
            np.add.at(self.error, flat, own + rounded)
            return
        for end, sign in zip(self.ends, (-1, 1), strict=True):
            COMBINE[self.combiner].at(end, flat, value + sign * FACTOR * own)

    def _add_doubts(
        self, scope: EvaluationScope, axes: Sequence[Axis], sizes: Sequence[int], places: dict[str, Array],
        unsure: NDArray[np.bool_], size: Array, reach: int,
    ) -> None:  # fmt: skip
        """A term that may belong elsewhere, or not count, is an error of all places that it may belong to."""
        for steps in cartesian(range(-reach, reach + 1), repeat=len(places)):
            moved = {axis: place + step for (axis, place), step in zip(places.items(), steps, strict=True)}
            flat, there = self._flat(scope, axes, sizes, moved, unsure)
            np.add.at(self.error, flat, np.broadcast_to(size, sizes)[there])

    def result(self) -> Pair:
        """The value and its error."""
        value = self.value.reshape(self.shape)
        if not self.errors:
            return value, None
        if self.combiner == "sum":
            return value, self.error.reshape(self.shape)
        if self.combiner == "prod" or not self.dtype.is_float:
            return value, np.zeros(self.shape)
        low, high = (end.reshape(self.shape) for end in self.ends)
        return value, of_finite(value, np.maximum(high - value, value - low) / FACTOR)
