"""Transposed convolutions with a stride, phase by phase, are what the definition says, with no more products than needed."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from helpers.graph_functions import computed
from helpers.operators.windows import transposed
from tilesmith import placeholder, program
from tilesmith.graph.functions.convolution import transposed_convolution
from tilesmith.tensor.program import Program


def cases(rank: int) -> list[tuple[int, ...]]:
    """(stride, padding, dilation, kernel, groups, output padding)"""
    found = product((1, 2, 3), (0, 1), (1, 2), (1, 2, 3, 4), (1, 2), (0, 1))
    return [case for case in found if case[5] < case[0] and (rank == 1 or case[3] < 4)]


@pytest.mark.parametrize("rank", [1, 2])
def test_they_are_what_the_definition_says(rank: int) -> None:
    rng, tried = np.random.default_rng(0), 0
    for stride, padding, dilation, kernel, groups, more in cases(rank):
        x = rng.standard_normal((2, 4, *(4, 3)[:rank]))
        w = rng.standard_normal((4, 3, *[kernel] * rank))
        wanted = transposed(x, w, stride, padding, dilation, groups, more)
        if 0 in wanted.shape:
            continue
        (found,) = computed(
            lambda a, b, o=(stride, padding, dilation, groups, more): transposed_convolution(a, b, None, *o), x, w
        )
        np.testing.assert_allclose(found, wanted, 1e-9, 1e-9)
        tried += 1
    assert tried > 90


def products(made: Program) -> int:
    return sum(prod(axis.extent for axis in stage.all_axes) for stage in made.stages if stage.reduction)


def test_no_product_is_with_a_zero_between_elements() -> None:
    x, w = placeholder((1, 8, 6, 6), "f32", "x"), placeholder((8, 5, 3, 3), "f32", "w")
    made = program(transposed_convolution(x, w, None, 2, 1, 1, 1, 1))
    assert made.tensors[made.outputs[0]].shape == (1, 5, 12, 12)
    assert products(made) == 6 * 6 * 8 * 5 * 3 * 3
