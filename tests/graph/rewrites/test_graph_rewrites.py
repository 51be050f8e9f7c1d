"""Rewrites of whole programs leave every value as it was, drop what they should, and are linear in the number of stages."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tilesmith as ts
from helpers.random_programs import MODEL_KINDS, programs
from tilesmith.graph.executor.check import check_calls
from tilesmith.graph.partition.partition import partition
from tilesmith.graph.rewrites.common import common_stages
from tilesmith.graph.rewrites.fills import inlined_fills
from tilesmith.graph.rewrites.table import GRAPH_REWRITES, rewritten
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.stage_edits import needed_stages

MANY = programs(min_stages=4, max_stages=20, dtypes=("f64", "i32"), kinds=MODEL_KINDS, sizes=(1, 4, 5, 16))


@pytest.mark.parametrize("name", GRAPH_REWRITES)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(program=MANY)
def test_values_are_as_they_were(name: str, program: Program) -> None:
    after = GRAPH_REWRITES[name](program)
    assert (after.inputs, after.outputs) == (program.inputs, program.outputs)
    inputs = random_inputs(program, 2)
    for want, got in zip(evaluate(program, inputs), evaluate(after, inputs), strict=True):
        if name in ("forward windows", "sums first") and want.dtype.kind == "f":  # in another order
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
        else:
            assert np.array_equal(want, got, equal_nan=want.dtype.kind == "f")
    found = partition(after)
    check_calls(found.program, found.kernels, found.aliases, found.inside)


def names(program: Program) -> list[str]:
    return [stage.name for stage in program.stages]


def test_what_reads_nothing_is_written_where_it_is_read() -> None:
    """One after another, but for outputs."""
    program = ts.parse("""input x: f32[8]
zero[i: 8] = f32(0)
part[i: 4] = zero[i + 2]
own[i: 8] = f32(1)
y[i: 8] = x[i] + select(i < 4, part[min(i, 3)], zero[i])
return y, own""")
    assert names(inlined_fills(program)) == ["own", "y"]


def test_what_only_chose_among_equal_elements_goes_with_them() -> None:
    """A mask of ones that token numbers choose from."""
    program = ts.parse("""input x: f32[8]
input n: i64[8]
ones[i: 4] = f32(1)
place[i: 8] = n[i] * 2
y[j: 8] = ones[min(max(place[j], 0), 3)] * x[j]
return y""")
    assert names(inlined_fills(program)) == ["y"]
    assert [names(kernel) for kernel in partition(program).kernels] == [["y"]]


TEXT = """
input x: f32[8, 8]
a[i: 8] = sum[k: 8](x[i, k])
b[j: 8] = sum[l: 8](x[j, l])
t[i: 8] = sum[k: 8](x[k, i])
c[i: 8] = exp(a[i])
d[n: 8] = exp(b[n])
dead[i: 8] = d[i] + 1
m[i: 8] = max[k: 8](x[i, k])
y[i: 8] = c[i] + d[i] * t[i] - m[i]
"""


def test_what_is_common_is_computed_once() -> None:
    program = ts.parse(TEXT.strip() + "\nreturn y")
    after = common_stages(program)
    assert names(after) == ["a", "t", "c", "dead", "m", "y"]  # t goes down the columns, m is another combiner
    assert str(after.stage("y")) != str(program.stage("y"))
    assert names(needed_stages(after)) == ["a", "t", "c", "m", "y"] == names(rewritten(program))


def test_outputs_are_computed_all_the_same() -> None:
    program = ts.parse(TEXT.strip() + "\nreturn y, b, d")
    assert names(rewritten(program)) == ["a", "b", "t", "c", "d", "m", "y"]


def test_what_differs_is_not_common() -> None:
    program = ts.parse(
        "input x: f32[8, 8]\na[i: 8, j: 8] = x[i, j] * 2\nb[i: 8, j: 8] = x[j, i] * 2\nc[i: 4, j: 8] = x[i, j] * 2\n"
        "d[i: 8, j: 8] = x[i, j] * 2.5\ny[i: 8, j: 8] = a[i, j] + b[i, j] + c[i // 2, j] + d[i, j]\nreturn y"
    )
    assert rewritten(program) is program


def test_two_thousand_stages_take_seconds() -> None:
    lines = ["input x: f32[16, 16]", "s0[i: 16, j: 16] = x[i, j] + 1"]
    for n in range(660):
        lines += [
            f"a{n}[i: 16, j: 16] = sum[k: 16](s{n}[i, k] * x[k, j])",
            f"b{n}[r: 16, c: 16] = sum[l: 16](s{n}[r, l] * x[l, c])",
            f"s{n + 1}[i: 16, j: 16] = tanh(a{n}[i, j] - b{n}[j, i])",
        ]
    program = ts.parse("\n".join([*lines, "return s660"]))
    begin = time.process_time()
    after = rewritten(program)
    assert len(after.stages) == 1321
    assert time.process_time() - begin < 5
    partition(program)
    assert time.process_time() - begin < 20
