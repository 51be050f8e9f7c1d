"""Stages over the same loops that become one, against the oracle of the program as it stood."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.indices.members import member_axes
from tilesmith.tensor.indices.scatter import scattered
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.normalise import normalise
from tilesmith.tensor.rewrites.registry import join_siblings
from tilesmith.tensor.rewrites.siblings.join import siblings_of
from tilesmith.tensor.text.parse import parse

MOMENTS = """
input x: f32[13, 21]
s[i: 13] = sum[k: 21](x[i, k])
q[a: 13] = sum[b: 21](x[a, b] * x[a, b])
return s, q
"""
HISTOGRAMS = """
input x: u8[12, 9]
input y: f32[12, 9]
count[b: 256] = sum[i: 12, j: 9](select(b == i64(x[i, j]), f32(1), 0))
total[b: 256] = sum[j: 9, i: 12](select(b == i64(x[i, j]), y[i, j], 0))
mean[b: 256] = total[b] / max(count[b], 1)
return mean
"""
CHAINS = """
input g: f32[24, 40]
v[a: 6, z: 12] = sum[r: 4, s: 40](select(z == i64(g[4 * a + r, s]), g[4 * a + r, s], 0))
vz[a: 6, z: 10] = v[a, z] + v[a, z + 2] * 2
vb[a: 5, z: 10] = vz[a, z] + vz[a + 1, z] * 2
w[a: 6, z: 12] = sum[r: 4, s: 40](select(z == i64(g[4 * a + r, s]), f32(1), 0))
wz[a: 6, z: 10] = w[a, z] + w[a, z + 2] * 2
wb[a: 5, z: 10] = wz[a, z] + wz[a + 1, z] * 2
return vb, wb
"""


def extrema(dtype: str) -> Program:
    """The range of each column, and the greatest element of all."""
    return parse(f"""
        input x: {dtype}[11, 14]
        high[j: 14] = max[i: 11](x[i, j])
        low[j: 14] = min[i: 11](x[i, j])
        width[j: 14] = high[j] - low[j]
        return low, width
    """)


def joined(program: Program) -> Program:
    """The program with all siblings joined, and each text of it read again."""
    while found := siblings_of(program):
        program = join_siblings(program, found)
        assert parse(str(program)) == program
    return program


def assert_same(program: Program, inputs: list[np.ndarray]) -> Program:
    made = joined(program)
    for form in (made, normalise(made)):
        given = [array.reshape(item.tensor.shape) for array, item in zip(inputs, form.inputs, strict=True)]
        for got, want in zip(evaluate(form, given), evaluate(program, inputs), strict=True):
            np.testing.assert_array_equal(got.reshape(want.shape), want)
    return made


def test_sums_of_the_same_data_are_one_stage() -> None:
    x = np.random.default_rng(1).standard_normal((13, 21)).astype(np.float32)
    made = assert_same(parse(MOMENTS), [x])
    first, last = made.stages
    assert member_axes(first) == (first.axes[0].name,) and len(first.reads()) == 1
    assert [tensor.name for tensor in last.tensors] == ["s", "q"]


@pytest.mark.parametrize("dtype", ["f32", "i8", "u8", "i32", "u64"])
def test_the_least_element_is_the_greatest_of_what_is_mirrored(dtype: str) -> None:
    program = extrema(dtype)
    kind = program.inputs[0].tensor.dtype.numpy
    x = np.random.default_rng(2).integers(0, 100, (11, 14)).astype(kind)
    if dtype == "f32":
        x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, -np.inf
    else:
        x[3, 4], x[5, 6] = np.iinfo(kind).min, np.iinfo(kind).max
    made = assert_same(program, [x])
    assert [stage.combiner for stage in made.stages] == ["max", None]


def test_terms_of_histograms_keep_their_places() -> None:
    random = np.random.default_rng(3)
    x, y = random.integers(0, 256, (12, 9)).astype(np.uint8), random.integers(-9, 9, (12, 9)).astype(np.float32)
    made = assert_same(parse(HISTOGRAMS), [x, y])
    found = scattered(made.stages[0])
    assert found is not None and list(found.places) == [made.stages[0].axes[1].name]


def test_what_finishes_members_goes_with_them() -> None:
    g = np.random.default_rng(4).uniform(0, 12, (24, 40)).astype(np.float32)
    made = joined(parse(CHAINS))
    assert [(len(stage.tensors), len(stage.axes)) for stage in made.stages] == [(1, 3), (1, 3), (2, 2)]
    for got, want in zip(evaluate(made, [g]), evaluate(parse(CHAINS), [g]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_no_more_members_than_registers_hold() -> None:
    lines = [f"s{n}[i: 8] = sum[k: 9](x[i, k] * {n + 1})" for n in range(6)]
    program = parse("\n".join(["input x: f32[8, 9]", *lines, "return s0, s1, s2, s3, s4, s5"]))
    x = np.random.default_rng(5).integers(-9, 9, (8, 9)).astype(np.float32)
    made = assert_same(program, [x])
    assert [stage.axes[0].extent for stage in made.stages if stage.reduction] == [4, 2]


DEPENDENT = """
input x: f32[8, 9]
s[i: 8] = sum[k: 9](x[i, k])
m[i: 8] = s[i] / 9
v[i: 8] = sum[k: 9]((x[i, k] - m[i]) * (x[i, k] - m[i]))
return v
"""
OTHERS = {
    "one needs the other": (DEPENDENT, ["s", "v"]),
    "other data": (
        "input x: f32[8, 9]\ninput y: f32[8, 9]\ns[i: 8] = sum[k: 9](x[i, k])\nq[i: 8] = sum[k: 9](y[i, k])\nreturn s, q",
        ["s", "q"],
    ),
    "other places": (
        "input x: f32[9, 9]\ns[i: 9] = sum[k: 9](x[i, k])\nq[i: 9] = sum[k: 9](x[k, i])\nreturn s, q",
        ["s", "q"],
    ),
    "another combiner": (
        "input x: f32[8, 9]\ns[i: 8] = sum[k: 9](x[i, k])\nq[i: 8] = max[k: 9](x[i, k])\nreturn s, q",
        ["s", "q"],
    ),
    "one alone": (MOMENTS, ["s"]),
    "one twice": (MOMENTS, ["s", "s"]),
    "no stage": (MOMENTS, ["s", "x"]),
    "places that differ": (
        HISTOGRAMS.replace("i64(x[i, j]), y", "i64(x[i, j]) + 1, y"),
        ["count", "total"],
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_others_are_refused(case: str) -> None:
    text, stages = OTHERS[case]
    program = parse(text)
    with pytest.raises(ProgramError):
        join_siblings(program, stages)
    assert case.startswith(("one alone", "one twice", "no stage")) or siblings_of(program) == ()
