"""Narrow operands that become f32 once each, against the original by the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.rewrites.registry import widen_reads
from tilesmith.tensor.rewrites.widen_reads import can_widen_reads, is_widening
from tilesmith.tensor.text.parse import parse

SQUARE = "C[i: 5, j: 6] = sum[k: 7]({})\nreturn C"


@pytest.mark.parametrize("kind", ["bf16", "f16", "i8", "u8", "i16"])
def test_a_narrow_operand_becomes_a_stage_of_its_own(kind: str) -> None:
    product = SQUARE.format("f32(A[i, k]) * f32(B[k, j])")
    program = parse(f"input A: {kind}[5, 7]\ninput B: {kind}[7, 6]\n{product}")
    wide = widen_reads(widen_reads(program, "C", "A"), "C", "B")
    assert [is_widening(stage) for stage in wide.stages] == [True, True, False]
    assert {read.dtype.name for read in wide.producers["C"].reads()} == {"f32"}
    assert parse(str(wide)) == wide
    inputs = random_inputs(program, 3)
    for before, after in zip(evaluate(program, inputs), evaluate(wide, inputs), strict=True):
        np.testing.assert_array_equal(after, before)


def test_all_reads_of_a_tensor_become_wide_together() -> None:
    program = parse(f"input A: f16[7, 7]\n{SQUARE.format('f32(A[i, k]) * f32(A[k, j])')}")
    (made, summed) = widen_reads(program, "C", "A").stages
    assert made.name == "A_wide" and {read.tensor for read in summed.reads()} == {"A_wide"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("f32", "A[i, k] * f32(B[k, j])"),
        ("i8", "f32(i32(A[i, k]) + 1) * f32(B[k, j])"),
        ("i32", "f32(A[i, k]) * f32(B[k, j])"),
        ("i8", "f32(A[i, k]) * f32(i32(A[i, k]) * i32(B[k, j]))"),
        ("i8", "f32(B[k, j])"),
    ],
)
def test_what_is_not_read_as_f32_alone_stays(kind: str, body: str) -> None:
    program = parse(f"input A: {kind}[5, 7]\ninput B: i8[7, 6]\n{SQUARE.format(body)}")
    assert not can_widen_reads(program.stages[-1], "A")
    with pytest.raises(ProgramError, match="is not read as f32 alone"):
        widen_reads(program, "C", "A")
