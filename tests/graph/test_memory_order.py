"""Inputs are read in the order in which they lie in memory, and the program computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.graph.memory_order import MemoryOrder, order_of, with_inputs_as_they_lie
from tilesmith.graph.partition.partition import partition
from tilesmith.tensor.oracle.reference import evaluate

TEXT = """
input x: f32[5, 3, 4]
constant w: f32[4, 6]
y[i: 5, j: 3, o: 6] = sum[k: 4](x[i, j, k] * w[k, o])
return y
"""


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 0, 2), (2, 1, 0)])
def test_values_are_as_they_were(order: MemoryOrder) -> None:
    program = ts.parse(TEXT.strip())
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((5, 3, 4), (4, 6)))
    after = with_inputs_as_they_lie(program, {"x": order})
    assert [one.tensor.name for one in after.inputs] == ["x_memory", "w"]
    assert np.array_equal(*evaluate(program, [x, w]), *evaluate(after, [np.ascontiguousarray(x.transpose(order)), w]))


def test_no_kernel_moves_the_elements() -> None:
    after = with_inputs_as_they_lie(ts.parse(TEXT.strip()), {"x": (2, 0, 1)})
    assert len(partition(after).kernels) == 1


def test_a_program_whose_inputs_lie_in_order_stays_as_it_is() -> None:
    program = ts.parse(TEXT.strip())
    assert with_inputs_as_they_lie(program, {}) is program


@pytest.mark.parametrize(
    ("shape", "strides", "order"),
    [
        ((3, 4), (1, 3), (1, 0)),
        ((2, 3, 4), (12, 1, 3), (0, 2, 1)),
        ((2, 1, 4), (1, 77, 2), (2, 0, 1)),  # nobody steps along one element
        ((3, 4), (4, 1), None),  # in order
        ((3, 1), (1, 9), None),
        ((3, 4), (8, 1), None),  # with room between the rows
        ((3, 4), (0, 1), None),  # one row for all
        ((), (), None),
        ((0, 4), (1, 0), None),  # nothing
    ],
)
def test_orders_are_those_of_the_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], order: MemoryOrder | None
) -> None:
    assert order_of(shape, strides) == order
