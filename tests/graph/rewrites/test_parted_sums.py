"""Reductions over what is put together: of each part by itself, with the same values, and only where parts are computed."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.graph.partition.partition import partition
from tilesmith.graph.rewrites.parted_sums import parted_sums
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program

JOINED = """
input x: f32[5, 7]
input y: f32[5, 9]
input w: f32[5, 12]
a[i: 5, k: 4] = exp(x[i, k])
b[i: 5, k: 7] = y[i, k + 1] * x[i, min(k, 6)]
c[i: 5, k: 12] = select(k < 4, a[i, k], select(k < 11, b[i, k - 4], x[i, 3]))
m[i: 5, k: 12] = c[i, k] * w[i, k]
t[i: 5] = {combiner}[k: 12](m[i, k])
u[i: 5] = t[i] + 1
return {outputs}
"""


def program(combiner: str = "sum", outputs: str = "u") -> Program:
    return ts.parse(JOINED.strip().format(combiner=combiner, outputs=outputs))


def names(given: Program) -> list[str]:
    return [stage.name for stage in parted_sums(given).stages]


@pytest.mark.parametrize("combiner", ["sum", "max", "min", "prod"])
def test_parts_are_reduced_by_themselves_and_are_the_same_together(combiner: str) -> None:
    given = program(combiner)
    after = parted_sums(given)
    assert [stage.name for stage in after.stages] == ["a", "b", "t_part", "t_part1", "t_part2", "t", "u"]
    assert [stage.reduction[0].extent for stage in after.stages if stage.combiner] == [4, 7]  # one term is no reduction
    inputs = random_inputs(given, 3)
    np.testing.assert_allclose(*(evaluate(one, inputs)[0] for one in (given, after)), rtol=1e-6)


def test_parts_are_computed_where_they_are_summed() -> None:
    kernels = partition(program()).kernels
    assert not any({"a", "b", "c", "m"} & {stage.name for stage in kernel.stages} for kernel in kernels)


def test_compiled_it_is_the_same() -> None:
    given = program()
    inputs = random_inputs(given, 4)
    np.testing.assert_allclose(ts.compile(given, threads=2)(*inputs), evaluate(given, inputs)[0], rtol=1e-5)


@pytest.mark.parametrize("outputs", ["u, m", "u, c"])
def test_what_is_read_elsewhere_stays_whole(outputs: str) -> None:
    assert "t_part" not in names(program(outputs=outputs))


def test_a_softmax_of_what_is_put_together_stays_whole() -> None:
    text = JOINED.replace("u[i: 5] = t[i] + 1", "u[i: 5, k: 12] = m[i, k] / t[i]")
    assert "t_part" not in names(ts.parse(text.strip().format(combiner="sum", outputs="u")))


def test_sums_of_parts_that_are_stored_stay_whole() -> None:
    text = JOINED.replace("exp(x[i, k])", "sum[n: 3](x[i, k + n])").replace("y[i, k + 1] * x[i, min(k, 6)]", "y[i, k]")
    assert "t_part" not in names(ts.parse(text.strip().format(combiner="sum", outputs="u")))


def test_products_of_matrices_stay_whole() -> None:
    given = ts.parse("""input x: f32[8, 9]
input w: f32[16, 12]
a[i: 8, k: 4] = exp(x[i, k])
c[i: 8, k: 16] = select(k < 4, a[i, k], x[i, min(k - 4, 8)])
t[i: 8, j: 12] = sum[k: 16](c[i, k] * w[k, j])
return t""")
    assert names(given) == ["a", "c", "t"]


def test_narrow_sums_are_rounded_once() -> None:
    text = "input x: bf16[5, 8]\n" + "\n".join([
        "a[i: 5, k: 4] = exp(x[i, k])", "c[i: 5, k: 8] = select(k < 4, a[i, k], x[i, k])",
        "t[i: 5] = sum[k: 8](c[i, k])", "return t",
    ])  # fmt: skip
    assert "t_part" not in names(ts.parse(text))


def test_parts_may_be_stacked_and_flattened() -> None:
    given = ts.parse("""input x: f32[5, 12]
input w: f32[5, 12]
a[i: 5, k: 4] = exp(x[i, k])
b[i: 5, k: 4] = x[i, k + 4] * x[i, k]
c[i: 5, n: 3, k: 4] = select(n < 1, a[i, k], select(n < 2, b[i, k], x[i, k + 8]))
f[i: 5, k: 12] = c[i, k // 4, k % 4]
t[i: 5] = sum[k: 12](f[i, k] * w[i, k])
return t""")
    assert names(given) == ["a", "b", "t_part", "t_part1", "t_part2", "t"]
    inputs = random_inputs(given, 5)
    np.testing.assert_allclose(*(evaluate(one, inputs)[0] for one in (given, parted_sums(given))), rtol=1e-6)
