"""Rows in groups times the matrix of their group: what NumPy gives group by group, however uneven the groups are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from helpers.graph_functions import computed, numbers
from tilesmith.common.errors import ArgumentError
from tilesmith.graph.functions.grouped import grouped_matmul
from tilesmith.graph.partition.partition import partition

Array = np.ndarray[Any, Any]
SIZES = {
    "one row each": [1, 1, 1],
    "a single row": [0, 1, 0, 0],
    "empty ones between": [0, 5, 0, 0, 9, 0],
    "all in the last": [0, 0, 0, 40],
    "all in the first": [40, 0, 0, 0],
    "blocks that are full": [8, 16, 8],
    "uneven": [1, 33, 7, 2, 60, 17],
    "one group": [13],
}


def by_groups(x: Array, weights: Array, ends: Array) -> Array:
    """The products of one group after the other; rows behind the last are zero."""
    made = np.zeros((len(x), weights.shape[2]), x.dtype)
    for group, end in enumerate(ends):
        begin = ends[group - 1] if group else 0
        made[begin:end] = x[begin:end] @ weights[group]
    return made


@pytest.mark.parametrize("behind", [0, 3])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_each_row_meets_the_matrix_of_its_group(sizes: list[int], behind: int) -> None:
    ends = np.cumsum(sizes).astype("int32")
    x, weights = numbers(ends[-1] + behind, 5), numbers(len(sizes), 5, 3, seed=1)
    (found,) = computed(grouped_matmul, x, weights, ends)
    np.testing.assert_allclose(found, by_groups(x, weights, ends), atol=1e-12)


@pytest.mark.parametrize("rows", [2, 24, 150])
def test_compiled_it_takes_any_groups(rows: int) -> None:
    """One kernel for every way in which the rows may fall into groups."""
    groups, depth, columns = 5, 24, 19
    weights = numbers(groups, columns, depth, seed=1, dtype="float32")
    x, w = ts.placeholder((rows, depth), name="x"), ts.constant((groups, columns, depth), name="w")
    ends = ts.placeholder((groups,), "i64", name="ends")
    turned = ts.compute((groups, depth, columns), lambda g, k, n: w[g, n, k])
    program = ts.program([grouped_matmul(x, turned, ends)], inputs=[x, w, ends])
    kernel = ts.compile(program, constants=[weights], threads=2)
    for seed in range(4):
        given = numbers(rows, depth, seed=seed, dtype="float32")
        sizes = np.random.default_rng(seed).multinomial(rows - seed % 2, [1 / groups] * groups)
        found = kernel(given, np.cumsum(sizes))
        np.testing.assert_allclose(found, by_groups(given, weights.transpose(0, 2, 1), np.cumsum(sizes)), atol=1e-4)


def test_matrices_are_read_where_they_lie() -> None:
    """A kernel that copies the matrix of each block would move more than the products read."""
    x, w, ends = ts.placeholder((64, 32)), ts.constant((4, 32, 48), name="w"), ts.placeholder((4,), "i64")
    program = ts.program([grouped_matmul(x, w, ends)], inputs=[x, w, ends])
    assert not any(
        stage.tensors[0].shape[-2:] == (32, 48) for kernel in partition(program).kernels for stage in kernel.stages
    )


def test_groups_that_do_not_fit_are_refused() -> None:
    x, w = ts.placeholder((6, 4)), ts.placeholder((3, 4, 5))
    with pytest.raises(ArgumentError, match="groups of rows do not fit"):
        grouped_matmul(x, w, ts.placeholder((2,), "i64"))
