"""factor_sums: sums of groups, each multiplied once, are the sums of what was multiplied term by term."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.factor_sums import factor_sums, group_of_sum
from tilesmith.tensor.text.parse import parse

HALVES = """
    input x: f32[3, 64]
    constant w: u8[32, 5]
    constant s: f16[4, 5]
    constant z: u8[4, 5]
    Q[k: 64, j: 5] = select(k % 2 == 0, i32(w[k // 2, j]) % 16, i32(w[k // 2, j]) // 16)
    W[k: 64, j: 5] = f32(Q[k, j] - i32(z[k // 16, j])) * f32(s[k // 16, j])
    C[i: 3, j: 5] = sum[k: 64](x[i, k] * W[k, j])
    return C
    """
CHANNELS = """
    input x: f32[3, 64]
    constant w: i8[5, 64]
    constant s: f32[5]
    C[i: 3, j: 5] = sum[k: 64](x[i, k] * (f32(w[j, k]) * s[j]))
    return C
    """


def close(program: Program, rewritten: Program) -> None:
    inputs = random_inputs(program, 1)
    for one, other in zip(evaluate(program, inputs), evaluate(rewritten, inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * float(np.abs(one).max()))
    assert parse(str(rewritten)) == rewritten


def test_scales_of_groups_leave_the_inner_sum() -> None:
    program = parse(HALVES)
    rewritten = factor_sums(program, "C", 16)
    close(program, rewritten)
    groups, total = rewritten.stages  # Q and W were written into the sum, and are gone
    assert [axis.extent for axis in groups.axes] == [4, 3, 5] and [axis.extent for axis in groups.reduction] == [16]
    assert {read.tensor for read in groups.reads()} == {"x", "w", "z"}
    assert {read.tensor for read in total.reads()} == {groups.name, "s"}


def test_scales_of_channels_multiply_the_whole_sum() -> None:
    program = parse(CHANNELS)
    rewritten = factor_sums(program, "C", 64)
    close(program, rewritten)
    assert [stage.combiner for stage in rewritten.stages] == ["sum", None]


@pytest.mark.parametrize(("text", "group"), [(HALVES, 16), (CHANNELS, 64)])
def test_the_group_is_found(text: str, group: int) -> None:
    program = parse(text)
    assert group_of_sum(program, program.stage("C")) == group


@pytest.mark.parametrize(
    "body",
    [
        "x[i, k] * f32(w[j, k])",  # no scale
        "x[i, k] * v[j, k] * s[j]",  # weights in full
        "x[i, k] * (f32(w[j, k]) * s[j] + 1)",  # no factor
        "x[i, k] * f32(w[j, k]) * t[k // 8, k % 8]",  # a factor that moves at each step
    ],
)
def test_other_sums_are_left_alone(body: str) -> None:
    program = parse(f"""
        input x: f32[3, 64]
        constant w: i8[5, 64]
        constant v: f32[5, 64]
        constant s: f32[5]
        constant t: f32[8, 8]
        C[i: 3, j: 5] = sum[k: 64]({body})
        return C
        """)
    assert group_of_sum(program, program.stage("C")) is None


def test_groups_of_the_constant_that_changes_fastest_are_taken() -> None:
    """A scale in groups of 16 beside one of 32: only over 16 points do both stay."""
    text = HALVES.replace("* f32(s[k // 16, j])", "* (f32(s[k // 16, j]) * f32(s[k // 32, j]))")
    program = parse(text)
    assert group_of_sum(program, program.stage("C")) == 32  # the one leaves, the other stays with the terms
    close(program, factor_sums(program, "C", 32))
    close(program, factor_sums(program, "C", 16))


@pytest.mark.parametrize(("stage", "group", "says"), [("C", 24, "divide"), ("C", 64, "no factor"), ("W", 16, "no sum")])
def test_what_does_not_apply_is_one_error(stage: str, group: int, says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        factor_sums(parse(HALVES), stage, group)
