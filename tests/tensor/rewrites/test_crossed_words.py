"""Sums over words that multiply sums of bytes, against the original by the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.crossed_words import can_cross_words
from tilesmith.tensor.rewrites.registry import crossed_words, dot_words, half_words
from tilesmith.tensor.text.parse import parse


def words(a: str = "u8", b: str = "i8", k: int = 16) -> Program:
    """C = A B of bytes, in words of halves."""
    body = f"C[i: 5, j: 6] = sum[k: {k}](i32(A[i, k]) * i32(B[k, j]))"
    return half_words(parse(f"input A: {a}[5, {k}]\ninput B: {b}[{k}, 6]\n{body}\nreturn C"), "C", "k")


@pytest.mark.parametrize("k", [16, 19])
@pytest.mark.parametrize("kinds", ["u8 i8", "i8 i8", "u8 u8", "i8 u8"])
def test_crossed_sums_are_the_same(kinds: str, k: int) -> None:
    program = words(*kinds.split(), k=k)
    crossed = crossed_words(program, "C")
    assert parse(str(crossed)) == crossed
    assert [stage.name for stage in crossed.stages[-4:]] == ["C_crossed", "C_own_C_left", "C_own_C_right", "C"]
    inputs = random_inputs(program, 5)
    for before, after in zip(evaluate(program, inputs), evaluate(crossed, inputs), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("kinds", ["u8 i8", "i8 i8", "u8 u8", "i8 u8"])
def test_every_product_of_two_bytes_is_exact(kinds: str) -> None:
    """Row i has one byte in all places, column j another one: all 65,536 pairs meet, the ends of both types among them."""
    a, b = kinds.split()
    text = f"input A: {a}[256, 4]\ninput B: {b}[4, 256]\nC[i: 256, j: 256] = sum[k: 4](i32(A[i, k]) * i32(B[k, j]))\nreturn C"
    program = crossed_words(half_words(parse(text), "C", "k"), "C")
    left, right = (np.arange(256).astype(np.uint8).view({"u8": np.uint8, "i8": np.int8}[kind]) for kind in (a, b))
    rows, columns = np.repeat(left[:, None], 4, axis=1), np.repeat(right[None, :], 4, axis=0)
    (found,) = evaluate(program, [rows, columns])
    np.testing.assert_array_equal(found, rows.astype(np.int64) @ columns.astype(np.int64))


def test_what_may_not_fit_in_a_half_stays() -> None:
    halves = (
        "input A: i16[5, 16]\ninput B: i8[16, 6]\nC[i: 5, j: 6] = sum[k: 16](i32(A[i, k]) * i32(B[k, j]))\nreturn C"
    )
    for program in (dot_words(parse(halves), "C", "k"), words(k=17), parse(halves)):
        assert not can_cross_words(program, "C")
        with pytest.raises(ProgramError, match="is no sum over words of bytes"):
            crossed_words(program, "C")
