"""The normal form: the same elements in memory, with fewer axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from helpers.random_programs import any_programs
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.normalise import normalise
from tilesmith.tensor.text.canonical import program_key
from tilesmith.tensor.text.parse import parse


def becomes(text: str, wanted: str) -> None:
    """The normal form of a program, which gives the same on the same memory, is another one."""
    program = parse(text)
    normal = normalise(program)
    same_in_memory(program, normal)
    assert program_key(normal) == program_key(parse(wanted)), str(normal)


def same_in_memory(one: Program, other: Program) -> None:
    """Both give the same outputs on the same memory."""
    inputs = random_inputs(one, 7)
    seen = [x.reshape(item.tensor.shape) for x, item in zip(inputs, other.inputs, strict=True)]
    for a, b in zip(evaluate(one, inputs), evaluate(other, seen), strict=True):
        np.testing.assert_allclose(a.ravel(), b.ravel(), rtol=1e-12, atol=1e-12)


NORMAL = [
    (ops.relu(shape=(3, 4, 5)), "out[i0: 60] = max(x[i0], 0)"),
    (ops.transpose(5, 1), "out[i: 5] = x[i]"),
    (ops.transpose(5, 7), "out[j: 7, i: 5] = x[i, j]"),
    (ops.bias_add(4, 5), "out[i: 4, j: 5] = x[i, j] + bias[j]"),
    (ops.conv2d(1, 8, 7, 7, 4, kernel=1), "y[o: 4, p: 49] = sum[c: 8](X[c, p] * W[o, c])"),
    (ops.conv2d(2, 8, 7, 7, 4, kernel=1, layout="nhwc"), "y[n: 98, o: 4] = sum[c: 8](X[n, c] * W[c, o])"),
    (ops.batch_matmul(1, 3, 4, 5), "C[i: 3, j: 4] = sum[k: 5](A[i, k] * B[k, j])"),
    (ops.matmul(3, 4, 1), "C[i: 3, j: 4] = A[i] * B[j]"),
    (parse("input x: f32[4, 5, 6]\ny[] = sum[k: 6, i: 4, j: 5](x[i, j, k])\nreturn y"), "y[] = sum[i: 120](x[i])"),
    (parse("input x: f32[4, 5]\ny[i: 4, j: 5] = x[i, j] + f32(j)\nreturn y"), "y[i: 4, j: 5] = x[i, j] + f32(j)"),
    (parse("input x: f32[4, 6]\ny[i: 4, j: 5] = x[i, j]\nreturn y"), "y[i: 4, j: 5] = x[i, j]"),
    (parse("input x: f32[4, 5]\ny[i: 4, j: 5] = x[i, 4 - j]\nreturn y"), "y[i: 4, j: 5] = x[i, 4 - j]"),
    (parse("input x: f32[1]\ny[i: 1] = select(i >= 1, x[i - 1], x[i])\nreturn y"), "y[] = x[]"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "stage"), NORMAL, ids=[s[:40] for _, s in NORMAL])
def test_normal_forms(program: Program, stage: str) -> None:
    normal = normalise(program)
    same_in_memory(program, normal)
    wanted = parse("\n".join([*str(normal).split("\n")[: len(program.inputs)], stage, f"return {program.outputs[0]}"]))
    assert program_key(normal) == program_key(wanted), str(normal)


WIDE = """\
input x: {dtype}[4, 5]
s[i: 4] = {combiner}[k: 5](x[i, k])
y[i: 4] = s[i] * {dtype}(2)
return y, s"""
APART = """\
input x: {dtype}[4, 5]
s_wide[i: 4] = {combiner}[k: 5](f32(x[i, k]))
s[i: 4] = {dtype}(s_wide[i])
y[i: 4] = s[i] * {dtype}(2)
return y, s"""


@pytest.mark.parametrize("combiner", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_narrow_sums_are_wide_and_rounded_apart(dtype: str, combiner: str) -> None:
    program = parse(WIDE.format(dtype=dtype, combiner=combiner))
    wanted = parse(APART.format(dtype=dtype, combiner=combiner))
    assert program_key(normalise(program)) == program_key(wanted)
    assert program_key(normalise(wanted)) == program_key(wanted)


@pytest.mark.parametrize(("dtype", "combiner"), [("f32", "sum"), ("f64", "sum"), ("i8", "sum"), ("bf16", "max")])
def test_what_rounds_nothing_narrow_stays(dtype: str, combiner: str) -> None:
    program = parse(WIDE.format(dtype=dtype, combiner=combiner))
    assert program_key(normalise(program)) == program_key(program)


GROUPED = """\
input x: f32[3, 8, 5, 6]
input w: f32[8]
m[n: 3, g: 4] = max[k: 2, h: 5, v: 6](x[n, g * 2 + k, h, v])
y[n: 3, c: 8, h: 5, v: 6] = (x[n, c, h, v] - m[n, c // 2]) * w[c]
return y"""


def test_an_axis_that_holds_groups_is_split() -> None:
    wanted = """\
input x: f32[3, 4, 2, 30]
input w: f32[4, 2]
m[n: 3, g: 4] = max[k: 2, h: 30](x[n, g, k, h])
y[n: 3, g: 4, k: 2, h: 30] = (x[n, g, k, h] - m[n, g]) * w[g, k]
return y"""
    becomes(GROUPED, wanted)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m[n, c // 2]", "m[n, c // 2 + 0 * h]"),  # fine: simplified away
        ("* w[c]", "* w[7 - c]"),  # read in another way
        ("* w[c]", "* f32(c)"),  # used as a number
        ("m[n, c // 2]", "m[n, c // 3]"),  # groups that do not divide
        ("x[n, g * 2 + k, h, v]", "x[n, g + k, h, v]"),  # groups that overlap
        ("c: 8, h: 5", "c: 6, h: 5"),  # not the whole dimension
    ],
)
def test_groups_that_are_seen_in_another_way_keep_the_program_right(old: str, new: str) -> None:
    assert old in GROUPED
    program = parse(GROUPED.replace(old, new))
    normal = normalise(program)
    same_in_memory(program, normal)
    assert (len(normal.tensors["y"].shape) == 4) == ("0 * h" in new), str(normal)


GROUPED_SUM = """\
input x: f32[2, 6, 9]
input w: f32[8, 3, 2]
input b: f32[8]
s[n: 2, o: 8, p: 8] = sum[c: 3, r: 2](x[n, o // 4 * 3 + c, p + r] * w[o, c, r])
y[n: 2, o: 8, p: 8] = s[n, o, p] + b[o]
return y"""


def test_a_grouped_convolution_is_a_batch_of_convolutions() -> None:
    """The data have groups of another length than the results."""
    wanted = """\
input x: f32[2, 2, 3, 9]
input w: f32[2, 4, 3, 2]
input b: f32[2, 4]
s[n: 2, g: 2, k: 4, p: 8] = sum[c: 3, r: 2](x[n, g, c, p + r] * w[g, k, c, r])
y[n: 2, g: 2, k: 4, p: 8] = s[n, g, k, p] + b[g, k]
return y"""
    becomes(GROUPED_SUM, wanted)


def test_members_that_are_seen_by_a_remainder_are_split() -> None:
    """As in the gradient of a grouped convolution by its data."""
    text = """\
input y: f32[8, 5]
input w: f32[8, 3]
x[c: 6, p: 5] = sum[k: 4](y[k + c // 3 * 4, p] * w[c // 3 * 4 + k, c % 3])
return x"""
    wanted = """\
input y: f32[2, 4, 5]
input w: f32[2, 4, 3]
x[g: 2, c: 3, p: 5] = sum[k: 4](y[g, k, p] * w[g, k, c])
return x"""
    becomes(text, wanted)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("c, p + r]", "c * 1, p + r]"),  # fine: simplified away
        ("+ b[o]", "+ b[o] * x[n, 3, p]"),  # the data are read in another way
        ("+ b[o]", "+ b[o] * x[n, 3 - n, p]"),
        ("+ b[o]", "+ b[o] * s[n, 7 - o, p]"),  # the results are
        ("+ b[o]", "+ b[o] * x[n, o // 2, p]"),  # groups of another length
        ("+ b[o]", "+ b[o] * f32(o)"),  # used as a number
        ("o // 4 * 3 + c", "o // 4 * 2 + c"),  # groups that overlap
        ("o // 4 * 3 + c", "o // 3 + c"),  # groups that do not divide
        ("o // 4 * 3 + c", "o // 4 * 3 + 2 - c"),
    ],
)
def test_grouped_sums_that_are_seen_in_another_way_stay_right(old: str, new: str) -> None:
    assert old in GROUPED_SUM
    program = parse(GROUPED_SUM.replace(old, new))
    normal = normalise(program)
    same_in_memory(program, normal)
    assert (len(normal.tensors["y"].shape) == 4) == ("c * 1" in new), str(normal)


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d"])
@pytest.mark.parametrize("last", [False, True])
def test_grouped_convolutions_slide_over_data_of_their_own(name: str, last: bool) -> None:
    """No index has a quotient left in it."""
    space = "dhw"[3 - int(name[4]) :]
    sizes = {"n": 1, "c": 6, "o": 12, "groups": 3, "kernel": 3, **dict.fromkeys(space, 5)}
    program = ops.build_operator(name, {**sizes, "layout": f"n{space}c" if last else f"nc{space}"})
    normal = normalise(program)
    same_in_memory(program, normal)
    assert "//" not in str(normal) and "%" not in str(normal)


def test_what_lies_further_in_keeps_an_axis_whole() -> None:
    doubled = "input x: f32[4, 6]\nm[i: 4, j: 6] = exp(x[i, j])\ny[i: 8, j: 6] = m[i // 2, j] + 1\nreturn y"
    assert normalise(parse(doubled)).tensors["y"].shape == (8, 6)


def test_a_chain_of_stages_merges_as_a_whole_or_not_at_all() -> None:
    text = "input x: f32[4, 5]\na[i: 4, j: 5] = x[i, j] + 1\nb[i: 4, j: 5] = a[i, j] * 2\n{}\nreturn b, c"
    merged = normalise(parse(text.format("c[i: 4, j: 5] = a[i, j] - b[i, j]")))
    assert [len(s.axes) for s in merged.stages] == [1, 1, 1]
    kept = normalise(parse(text.format("c[j: 5, i: 4] = a[i, j] - b[i, j]")))
    assert [len(s.axes) for s in kept.stages] == [2, 2, 2]


def test_folds_keep_their_ordered_axis() -> None:
    program = parse("""
input x: f32[1, 4, 5, 7]
fold[k: 7] {
    total[a: 1, i: 4, j: 5]: f32 = 0
    total = total[a, i, j] * 0.5 + x[a, i, j, k]
}
return total
""")
    normal = normalise(program)
    same_in_memory(program, normal)
    assert [axis.extent for axis in normal.stages[0].axes] == [20]
    assert normal.stages[0].reduction[0].extent == 7


@settings(max_examples=80, deadline=None)
@given(any_programs())
def test_random_programs_keep_their_meaning(program: Program) -> None:
    normal = normalise(program)
    same_in_memory(program, normal)
    again = normalise(normal)
    assert program_key(again) == program_key(normal)
    for stage in normal.stages:  # a fold keeps its ordered axis: without one it is no fold
        assert all(axis.extent > 1 for axis in (stage.axes if stage.fold else stage.all_axes))
