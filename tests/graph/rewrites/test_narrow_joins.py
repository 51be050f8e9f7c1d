"""What narrows a joined tensor is done to each part: the same values, and parts are joined in the narrow type."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.graph.partition.partition import partition
from tilesmith.graph.rewrites.narrow_joins import narrow_joins
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program

QUANTIZED = """
input a: u8[3, 64, 5]
input b: f32[3, 65, 5]
input c: u8[3, 64, 5]
constant s: f32[193]
d[i: 3, k: 64, p: 5] = f32(a[i, k, p]) * 0.25
e[i: 3, k: 64, p: 5] = f32(c[i, k, p]) * 0.125 - 3
j[n: 3, m: 193, q: 5] = select(m < 64, d[n, m, q], select(m < 129, b[n, m - 64, q], e[n, m - 129, q]))
y[i: 3, k: 193, p: 5] = u8(min(max(round(j[i, k, p] * s[k]) + 7, 0), 255))
z[i: 3, p: 5] = sum[k: 193](i32(y[i, k, p]))
return {outputs}
"""


def program(outputs: str = "y, z") -> Program:
    return ts.parse(QUANTIZED.strip().format(outputs=outputs))


def names(given: Program) -> list[str]:
    return [stage.name for stage in narrow_joins(given).stages]


@pytest.mark.parametrize("outputs", ["y, z", "z"])
def test_each_part_is_narrowed_and_they_are_the_same_together(outputs: str) -> None:
    given = program(outputs)
    after = narrow_joins(given)
    assert [stage.name for stage in after.stages] == ["d", "e", "y_part", "y_part1", "y_part2", "y", "z"]
    assert {stage.tensors[0].dtype.name for stage in after.stages if stage.name.startswith("y")} == {"u8"}
    inputs = random_inputs(given, 2)
    for before, found in zip(evaluate(given, inputs), evaluate(after, inputs), strict=True):
        np.testing.assert_array_equal(before, found)


def test_compiled_it_is_the_same() -> None:
    given = program()
    inputs = random_inputs(given, 4)
    kernel = ts.compile(given, constants=inputs[-1:], threads=2)
    for found, wanted in zip(kernel(*inputs[:-1]), evaluate(given, inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_no_part_is_stored_wide() -> None:
    stored = [
        stage for kernel in partition(program("y")).kernels for stage in kernel.stages if stage.name in kernel.outputs
    ]
    assert stored
    assert {stage.tensors[0].dtype.name for stage in stored} == {"u8"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("u8(min(max(round(j[i, k, p] * s[k]) + 7, 0), 255))", "j[i, k, p] * s[k]"),  # nothing narrows
        ("sum[k: 193](i32(y[i, k, p]))", "sum[k: 193](i32(y[i, k, p]) + i32(j[i, k, p]))"),  # others read it too
        ("j[i, k, p] * s[k]", "j[i, k, p] * s[k] + j[i, 0, p]"),  # not only at its own place
        ("b[n, m - 64, q]", "b[n, m - 64, q] * 2"),  # a part that is computed in the choice
    ],
)
def test_other_joins_stay(old: str, new: str) -> None:
    text = QUANTIZED.replace(old, new)
    assert text != QUANTIZED
    assert "y_part" not in names(ts.parse(text.strip().format(outputs="y, z")))
