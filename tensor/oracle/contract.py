"""Sums of products as matrix products: what makes the oracle quick enough for real sizes. Equal to the general path."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..dtype import accumulator
from ..expr import Expr, variables
from ..program import Stage
from ..stage_edits import factors
from .roundings import Array


def factor_groups(stage: Stage) -> tuple[tuple[Expr, ...], tuple[Expr, ...]] | None:
    """The body of a sum as two groups of factors, each over fewer points than the whole; None where there are none, and where
    each product is rounded to a narrow float: what that leaves no product of sums tells."""
    if stage.combiner != "sum" or accumulator(stage.bodies[0].dtype) != stage.bodies[0].dtype:
        return None
    extents = {axis.name: axis.extent for axis in stage.all_axes}
    parts = sorted(factors(stage.bodies[0]), key=lambda f: -_points(variables(f), extents))
    groups: list[list[Expr]] = [[], []]
    axes: list[frozenset[str]] = [frozenset(), frozenset()]
    for factor in parts:
        used = variables(factor)
        number = min((0, 1), key=lambda n: (_points(axes[n] | used, extents) - _points(axes[n], extents), n))
        groups[number].append(factor)
        axes[number] |= used
    whole = prod(extents.values())
    if not all(groups) or any(_points(names, extents) * 2 > whole for names in axes):
        return None
    return tuple(groups[0]), tuple(groups[1])


def _points(names: frozenset[str], extents: dict[str, int]) -> int:
    return prod(extents[name] for name in names)


def contract(left: Array, right: Array, extents: Sequence[int], spatial: int) -> Array:
    """The sum over the dimensions from `spatial` on of left * right.

    Args:
        left, right: arrays of one rank, each dimension either its full extent or 1.
        extents: all extents.
        spatial: how many leading dimensions stay. The result has these, each full or 1.
    """
    repeated = 1
    for dimension in range(spatial, len(extents)):
        if left.shape[dimension] == 1 and right.shape[dimension] == 1:
            repeated *= extents[dimension]
        elif right.shape[dimension] == 1:
            left = left.sum(axis=dimension, keepdims=True, dtype=left.dtype)
        elif left.shape[dimension] == 1:
            right = right.sum(axis=dimension, keepdims=True, dtype=right.dtype)
    wide = range(len(extents))
    has_left = [left.shape[d] > 1 for d in wide]
    has_right = [right.shape[d] > 1 for d in wide]
    summed = [d for d in wide if d >= spatial and has_left[d]]
    both = [d for d in wide if d < spatial and has_left[d] and has_right[d]]
    only_left = [d for d in wide if d < spatial and has_left[d] and not has_right[d]]
    only_right = [d for d in wide if d < spatial and has_right[d] and not has_left[d]]
    sizes = [max(left.shape[d], right.shape[d]) for d in wide]

    def matrix(array: Array, *groups: list[int]) -> Array:
        kept = [d for group in groups for d in group]
        rest = [d for d in wide if d not in kept]
        return array.transpose(kept + rest).reshape([prod(sizes[d] for d in group) for group in groups])

    product = np.matmul(matrix(left, both, only_left, summed), matrix(right, both, summed, only_right))
    order = both + only_left + only_right
    product = product.reshape([sizes[d] for d in order]).transpose(np.argsort(order))
    result: Array = product.reshape([sizes[d] for d in range(spatial)])
    return result if repeated == 1 else result * np.asarray(repeated).astype(result.dtype)  # integers wrap
