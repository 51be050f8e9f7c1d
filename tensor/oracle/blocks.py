"""Blocks of points, and how the blocks of a reduction are put together, for the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod, sqrt

import numpy as np

from ..dtype import DType, accumulator
from ..program import Stage
from .errors import extreme_error, of_finite
from .evaluate import Pair
from .roundings import FACTOR, Array, least_normal, lost_below, rounded_error, rounding

BlockBox = tuple[tuple[int, int], ...]  # for each axis: first value, one after the last

BLOCK_POINTS = 1 << 20
COMBINE: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def boxes(extents: Sequence[int], cost: Callable[[Sequence[int]], int] = prod) -> Iterator[BlockBox]:
    """Boxes that cover all points, the last axis fastest; `cost(sizes)` of each is at most BLOCK_POINTS if possible."""
    sizes = list(extents)
    while cost(sizes) > BLOCK_POINTS:
        for d, size in enumerate(sizes):
            smaller = [*sizes[:d], (size + 1) // 2, *sizes[d + 1 :]]
            if size > 1 and cost(smaller) < cost(sizes):
                sizes = smaller
                break
        else:
            break
    ranges = [
        [(start, min(start + size, extent)) for start in range(0, extent, size)]
        for size, extent in zip(sizes, extents, strict=True)
    ]
    yield from product(*ranges)


def sizes_of(box: BlockBox) -> list[int]:
    """Counts the points of a box along each axis."""
    return [end - start for start, end in box]


def reduced(pair: Pair, stage: Stage, sizes: Sequence[int], errors: bool, asked: Pair | None = None) -> Pair:
    """The reduction of one block over its last dimensions; `sizes` are those of the block.

    Args:
        asked: the terms as the arithmetic that they ask for gives them. Its roundings cancel in part, and are known.
    """
    assert stage.combiner is not None
    dtype = stage.bodies[0].dtype
    last = tuple(range(len(sizes) - len(stage.reduction), len(sizes)))
    values = np.broadcast_to(pair[0], sizes)
    value = np.asarray(COMBINE[stage.combiner].reduce(values, axis=last, dtype=values.dtype))
    if not errors or (not dtype.is_float and pair[1] is None):
        return value, None
    own = np.zeros(()) if pair[1] is None else pair[1]
    own = np.broadcast_to(own, sizes)
    if stage.combiner == "sum":
        terms = own.sum(axis=last)
        if asked is not None:
            terms = np.fmin(terms, _summed(asked, values, last))
        return value, terms + accumulator(dtype).eps * np.abs(values).sum(axis=last)
    if stage.combiner == "prod":
        magnitudes = np.abs(values)
        grown = np.prod(magnitudes + own, axis=last) - np.prod(magnitudes, axis=last)
        count = prod(sizes[d] for d in last)
        lost = _lost_by_product(magnitudes, own, last, dtype)
        return value, grown + rounding(value, accumulator(dtype), count) + lost
    combine, wide = COMBINE[stage.combiner], values.astype(np.float64)
    low, high = (combine.reduce(wide + sign * FACTOR * own, axis=last) for sign in (-1, 1))
    return value, of_finite(value, np.maximum(high - value, value - low) / FACTOR)


def _summed(asked: Pair, values: Array, last: tuple[int, ...]) -> Array:
    """The error of a sum of terms, beside those of the values: they differ from these by roundings of both signs."""
    terms, error = (np.broadcast_to(np.zeros(()) if part is None else part, values.shape) for part in asked)
    return np.asarray(np.abs((terms - values).sum(axis=last)) / FACTOR + error.sum(axis=last))


def _lost_by_product(magnitudes: Array, own: Array, last: tuple[int, ...], dtype: DType) -> Array:
    """Returns what a product loses whose factors are, in some order, so small a number on the way that it is subnormal; all
    factors that are larger than one may follow."""
    if not dtype.is_float:
        return np.zeros(())
    kind, count = accumulator(dtype), prod(magnitudes.shape[d] for d in last)
    smallest = np.prod(magnitudes, axis=last, where=magnitudes < 1)
    largest = np.prod(magnitudes, axis=last, where=magnitudes > 1)
    loses = (smallest < least_normal(kind)) & (magnitudes + own > 0).all(axis=last)
    return np.where(loses, lost_below(kind, count) * largest, 0.0)


def accumulate(
    value: Array, error: Array | None, place: tuple[slice, ...], part: Pair, combiner: str | None, first: bool
) -> None:
    """Puts one block into the result: the first one of each place is stored, later ones are combined with it."""
    new, new_error = part
    if combiner is None or first:
        value[place] = new
        if error is not None:
            error[place] = 0.0 if new_error is None else new_error
        return
    old = value[place].copy()
    value[place] = COMBINE[combiner](old, new)
    if error is None or new_error is None:
        return
    if combiner == "sum":
        error[place] += new_error
    elif combiner == "prod":
        error[place] = error[place] * np.abs(new) + new_error * np.abs(old)
    else:
        error[place] = extreme_error(COMBINE[combiner], old, error[place], new, new_error)


def finished(value: Array, error: Array | None, stage: Stage) -> Array | None:
    """The error of a whole reduction: a sum of n terms wanders by sqrt(n) roundings of its result, all of the type in which it
    is accumulated; a narrow float is rounded once, at the end."""
    dtype = stage.bodies[0].dtype
    if error is None or stage.combiner not in ("sum", "prod") or not dtype.is_float:
        return error
    if stage.combiner == "sum":
        count = prod(axis.extent for axis in stage.reduction)
        error = error + rounding(value, accumulator(dtype), sqrt(count))
    return error if accumulator(dtype) == dtype else rounded_error(error, value, dtype)
