"""Zeros that are added to sums are gone, where the sum is all there is."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.graph.rewrites.added_zeros import without_added_zeros
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate

SCATTER = """input n: i64[6]
input x: f32[6, 5]
t[i: 9, j: 5] = sum[k: 6](select(min(max(n[k], 0), 8) == i, x[k, j], 0))
{last}
return {out}"""


@pytest.mark.parametrize("last", ["y[i: 9, j: 5] = 0 + t[i, j]", "y[i: 9, j: 5] = t[i, j] + 0"])
def test_a_sum_to_which_zero_is_added_is_the_sum(last: str) -> None:
    program = ts.parse(SCATTER.format(last=last, out="y"))
    after = without_added_zeros(program)
    assert [stage.name for stage in after.stages] == ["y"] and after.stages[0].combiner == "sum"
    inputs = random_inputs(program, 1)
    inputs[1][:] = -0.0
    (want,), (got,) = evaluate(program, inputs), evaluate(after, inputs)
    np.testing.assert_array_equal(np.signbit(want), np.signbit(got))
    found = ts.compile(after, threads=1)(*inputs)
    assert not np.signbit(found).any()


@pytest.mark.parametrize(
    ("last", "out"),
    [
        ("y[i: 9, j: 5] = 1 + t[i, j]", "y"),
        ("y[i: 9, j: 5] = 0 - t[i, j]", "y"),
        ("y[j: 5, i: 9] = 0 + t[i, j]", "y"),
        ("y[i: 4, j: 5] = 0 + t[i, j]", "y"),
        ("y[i: 9, j: 5] = 0 + t[i, j]", "y, t"),
        ("y[i: 9, j: 5] = 0 + t[i, j]\nz[i: 9, j: 5] = t[i, j] * 2", "y, z"),
        ("u[i: 9, j: 5] = exp(t[i, j])\ny[i: 9, j: 5] = 0 + u[i, j]", "y"),
    ],
)
def test_all_else_stays(last: str, out: str) -> None:
    program = ts.parse(SCATTER.format(last=last, out=out))
    assert without_added_zeros(program) == program
