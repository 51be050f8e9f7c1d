"""Sums over words of small bytes, of which sums of two products fit in 16 bits, against the original by the oracle."""

from __future__ import annotations

from itertools import product as combinations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.dot_words import can_dot_small
from tilesmith.tensor.rewrites.registry import small_words
from tilesmith.tensor.text.parse import parse


def held(
    least: int = -64, most: int = 64, a: str = "u8", b: str = "i8", m: int = 5, n: int = 6, k: int = 16
) -> Program:
    """C = A W of bytes, W being in a range."""
    return parse(f"""
        input A: {a}[{m}, {k}]
        input B: {b}[{k}, {n}]
        W[k: {k}, j: {n}] = min(max(B[k, j], {least}), {most})
        C[i: {m}, j: {n}] = sum[k: {k}](i32(A[i, k]) * i32(W[k, j]))
        return C
        """)


@pytest.mark.parametrize("k", [16, 19])
@pytest.mark.parametrize(("a", "b", "moved"), [("u8", "i8", ""), ("i8", "i8", "A")])
def test_sums_over_small_words_are_the_same(a: str, b: str, moved: str, k: int) -> None:
    program = held(a=a, b=b, k=k)
    small = small_words(program, "C", "k", moved)
    assert parse(str(small)) == small and "small_quad_dot(" in str(small)
    inputs = random_inputs(program, 5)
    for before, after in zip(evaluate(program, inputs), evaluate(small, inputs), strict=True):
        np.testing.assert_array_equal(after, before)


def test_every_product_of_two_bytes_is_exact() -> None:
    """Row i has one byte in all places, column j another one: all 256 meet all 129, and sums of two reach their ends."""
    program = held(m=256, n=129, k=4)
    rows = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, axis=1)
    columns = np.repeat(np.arange(-64, 65).astype(np.int8)[None, :], 4, axis=0)
    (found,) = evaluate(small_words(program, "C", "k"), [rows, columns])
    np.testing.assert_array_equal(found, rows.astype(np.int64) @ columns.astype(np.int64))


def test_every_word_of_ends_is_exact() -> None:
    """All words of the ends of both ranges meet, so that both sums of two are at either end, and of either sign, together."""
    rows = np.array(list(combinations((0, 1, 254, 255), repeat=4)), np.uint8)
    columns = np.array(list(combinations((-64, -63, 0, 63, 64), repeat=4)), np.int8).T.copy()
    program = held(m=len(rows), n=columns.shape[1], k=4)
    (found,) = evaluate(small_words(program, "C", "k"), [rows, columns])
    np.testing.assert_array_equal(found, rows.astype(np.int64) @ columns.astype(np.int64))


@pytest.mark.parametrize(("least", "most"), [(-65, 64), (-64, 65), (-128, 127), (-128, 0)])
def test_what_may_saturate_is_refused(least: int, most: int) -> None:
    program = held(least, most)
    assert not can_dot_small(program, "C", "k", "")
    with pytest.raises(ProgramError, match="sums of two products are"):
        small_words(program, "C", "k")


@pytest.mark.parametrize(("least", "most", "holds"), [(-128, 64, False), (0, 64, True), (-64, -1, True), (5, 5, True)])
def test_a_range_is_held_on_both_sides(least: int, most: int, holds: bool) -> None:
    assert can_dot_small(held(least, most), "C", "k", "") is holds


def test_one_more_would_saturate() -> None:
    """A bound that is one too large is no bound: sums of two products of 255 and 65, or -65, are cut."""
    text = str(small_words(held(k=4), "C", "k"))
    for number, cut in ((64, 2 * 32640), (65, 2 * 32767), (-64, -2 * 32640), (-65, -2 * 32768)):
        faulty = parse(text.replace("-64)", "-65)").replace(", 64)", ", 65)"))
        rows, columns = np.full((5, 4), 255, np.uint8), np.full((4, 6), number, np.int8)
        (found,) = evaluate(faulty, [rows, columns])
        assert (found == cut).all() and (cut == 4 * 255 * number) is (abs(number) == 64)


def test_nothing_is_known_of_what_is_given() -> None:
    given = parse(
        "input A: u8[5, 16]\ninput W: i8[16, 6]\nC[i: 5, j: 6] = sum[k: 16](i32(A[i, k]) * i32(W[k, j]))\nreturn C"
    )
    assert not can_dot_small(given, "C", "k", "")
    floats = parse(
        "input A: bf16[5, 16]\ninput W: bf16[16, 6]\nC[i: 5, j: 6] = sum[k: 16](f32(A[i, k]) * f32(W[k, j]))\nreturn C"
    )
    with pytest.raises(ProgramError, match="sums no products of bytes"):
        small_words(floats, "C", "k")


def test_data_may_be_what_is_small() -> None:
    """Data without a sign that fill 7 bits leave room for any weights."""
    text = """
        input A: u8[5, 16]
        input B: i8[6, 16]
        X[i: 5, k: 16] = min(A[i, k], 127)
        W[k: 16, j: 6] = {}
        C[i: 5, j: 6] = sum[k: 16](i32({}[i, k]) * i32(W[k, j]))
        return C
        """
    assert can_dot_small(parse(text.format("B[j, k]", "X")), "C", "k", "")
    assert not can_dot_small(
        parse(text.format("B[j, k]", "A").replace("X[i: 5, k: 16] = min(A[i, k], 127)", "")), "C", "k", ""
    )
