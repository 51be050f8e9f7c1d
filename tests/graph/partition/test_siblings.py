"""Groups that sum up the same data are one kernel, in an order in which all that is read is there."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from helpers.graph.cut import Builds, parted
from tilesmith.graph.executor.check import check_calls
from tilesmith.graph.partition.partition import Partition, partition
from tilesmith.runtime.kernel import Kernel
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import bounded
from tilesmith.tensor.program import Program

PICKED = Builds(2, analytic=True)
HEAD = """
input x: f32[48, 64]
input d: f32[48, 64]
"""
GRADIENTS = (
    HEAD
    + """
shift[j: 64] = sum[i: 48](d[i, j])
scale[j: 64] = sum[i: 48](d[i, j] * x[i, j])
a[i: 48, j: 64] = tanh(shift[j] * x[i, j])
b[i: 48, j: 64] = tanh(scale[j] * x[i, j])
return a, b
"""
)
BETWEEN = (
    HEAD
    + """
s[j: 64] = sum[i: 48](x[i, j])
m[i: 48, k: 64] = x[i, k] - s[63 - k] * 0.02
t[i: 48] = max[j: 64](tanh(m[i, j]))
q[j: 64] = sum[i: 48](x[i, j] * t[i])
return q
"""
)
UNIT_AXES = """
input x: f32[1, 48, 64]
input d: f32[1, 48, 64]
shift[j: 64] = sum[n: 1, i: 48](d[n, i, j])
scaled[n: 1, i: 48, j: 64] = d[0, i, j] * x[0, i, j]
scale[j: 64] = sum[n: 1, i: 48](scaled[n, i, j])
return shift, scale
"""
QUANTISED = (
    HEAD
    + """
high[] = max[i: 48, j: 64](x[i, j])
low[] = min[i: 48, j: 64](x[i, j])
scale[] = (max(high[], 0) - min(low[], 0)) / 255
y[i: 48, j: 64] = x[i, j] / max(scale[], 0.001)
z[i: 48] = max[j: 64](y[i, 63 - j] + d[i, j])
return y, z
"""
)
ROWS = (
    HEAD
    + """
s[i: 48] = sum[j: 64](x[i, j])
a[i: 48, j: 64] = exp(x[i, j] - s[i])
q[i: 48] = sum[j: 64](x[i, j] * x[i, j])
b[i: 48, j: 64] = exp(x[i, j] * q[i])
return a, b
"""
)


def together(found: Partition, *names: str) -> bool:
    """Whether some kernel has all these stages."""
    return any(set(names) <= {stage.name for stage in kernel.stages} for kernel in found.kernels)


def assert_right(program: Program) -> Partition:
    found = partition(program)
    check_calls(found.program, found.kernels, found.aliases, found.inside)
    made = parted(program, PICKED)
    inputs = random_inputs(program, 4)
    outputs = Kernel(made)(*inputs)
    for got, (want, tolerance) in zip(
        outputs if isinstance(outputs, tuple) else (outputs,), bounded(program, inputs), strict=True
    ):
        assert (np.abs(got.astype(np.float64) - want) <= tolerance).all()
    return found


@pytest.mark.parametrize(
    ("text", "names"),
    [(GRADIENTS, ("shift", "scale")), (UNIT_AXES, ("shift", "scale")), (QUANTISED, ("high", "low"))],
    ids=["gradients", "unit axes", "quantised"],
)
def test_sums_of_the_same_data_are_one_kernel(text: str, names: tuple[str, ...]) -> None:
    assert together(assert_right(ts.parse(text)), *names)


def test_a_kernel_between_them_keeps_sums_apart() -> None:
    """One sum is read by a kernel that the other sum reads: neither order would do for both."""
    assert not together(assert_right(ts.parse(BETWEEN)), "s", "q")


def test_sums_of_rows_stay_with_those_who_go_over_the_rows() -> None:
    found = assert_right(ts.parse(ROWS))
    assert not together(found, "s", "q") and together(found, "s", "a") and together(found, "q", "b")


def test_no_more_than_registers_hold() -> None:
    lines = [f"s{n}[j: 64] = sum[i: 48](x[i, j] * {n + 1})" for n in range(6)]
    lines += [f"y{n}[i: 48, j: 64] = tanh(d[i, j] * s{n}[63 - j])" for n in range(6)]
    found = partition(ts.parse("\n".join([HEAD, *lines, "return " + ", ".join(f"y{n}" for n in range(6))])))
    assert sorted(sum(bool(stage.reduction) for stage in kernel.stages) for kernel in found.kernels)[-1] <= 4
