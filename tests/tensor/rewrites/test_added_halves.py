"""Sums over words of small bytes that are added as halves, against the original by the oracle."""

from __future__ import annotations

from itertools import product as combinations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.added_halves import can_add_halves
from tilesmith.tensor.rewrites.registry import added_halves, small_words
from tilesmith.tensor.text.parse import parse

HELD = """
    U[g: {blocks}, h: 2, j: {n}] = sum[t: 2, e: 2](max(i32(B[g * 8 + t * 4 + h * 2 + e, j]), 0))
    D[g: {blocks}, h: 2, j: {n}] = sum[t: 2, e: 2](max(-i32(B[g * 8 + t * 4 + h * 2 + e, j]), 0))
    W[k: {k}, j: {n}] = select(U[k // 8, k % 4 // 2, j] <= 128 and D[k // 8, k % 4 // 2, j] <= 128,
        min(max(B[k, j], -64), 64), 0)
    """


def product(weights: str, data: str = "A[i, k]", m: int = 5, n: int = 6, k: int = 32, a: str = "u8") -> Program:
    """C = X W of small bytes, in words. `weights`: the stages that make W[k, j] of B; `data`: what X[i, k] is."""
    program = parse(f"""
        input A: {a}[{m}, {k}]
        input B: i8[{k}, {n}]
        X[i: {m}, k: {k}] = {data}
        {weights.format(n=n, k=k, blocks=k // 8)}
        C[i: {m}, j: {n}] = sum[k: {k}](i32(X[i, k]) * i32(W[k, j]))
        return C
        """)
    return small_words(program, "C", "k", "X" if a == "i8" else "")


def clamped(bound: int, **sizes: int) -> Program:
    return product(f"W[k: {{k}}, j: {{n}}] = min(max(B[k, j], {-bound}), {bound})", **sizes)  # type: ignore[arg-type]


def rows_of(ends: tuple[int, ...], words: int, kind: type) -> np.ndarray:
    """All words of some bytes, each beside itself and beside others."""
    one = np.array(list(combinations(ends, repeat=4)), kind)
    return np.concatenate([one, one, one[::-1], np.roll(one, 7, axis=0)][:words], axis=1)


@pytest.mark.parametrize("words", [2, 4])
@pytest.mark.parametrize("a", ["u8", "i8"])
def test_sums_of_several_words_are_the_same(a: str, words: int) -> None:
    program = product(f"W[k: {{k}}, j: {{n}}] = min(max(B[k, j], {-64 // words}), {64 // words})", a=a)
    added = added_halves(program, "C_dots" if a == "i8" else "C", "word", words)
    assert parse(str(added)) == added and str(added).count("pair_sums(") == words
    inputs = random_inputs(program, 5)
    for before, after in zip(evaluate(program, inputs), evaluate(added, inputs), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("words", "data", "top", "bound"),
    [(2, "A[i, k]", 255, 32), (4, "A[i, k]", 255, 16), (3, "A[i, k]", 255, 21), (2, "min(A[i, k], 127)", 127, 64)],
)
def test_ends_of_both_ranges_are_exact(words: int, data: str, top: int, bound: int) -> None:
    """All words of the ends meet beside other such words, so that sums of all of them reach either end of what they can be."""
    left = rows_of((0, 1, top - 1, top), words, np.uint8)
    right = rows_of((-bound, 1 - bound, bound - 1, bound), words, np.int8)
    right = np.concatenate([right, np.full((1, 4 * words), bound), np.full((1, 4 * words), -bound)]).astype(np.int8)
    weights = f"W[k: {{k}}, j: {{n}}] = min(max(B[k, j], {-bound}), {bound})"
    program = product(weights, data, len(left), len(right), 4 * words)
    (found,) = evaluate(added_halves(program, "C", "word", words), [left, right.T.copy()])
    np.testing.assert_array_equal(found, left.astype(np.int64) @ right.T.astype(np.int64))


@pytest.mark.parametrize(("words", "bound"), [(2, 33), (3, 22), (4, 17)])
def test_what_may_not_fit_is_refused(words: int, bound: int) -> None:
    assert can_add_halves(clamped(bound - 1, k=96), "C", "word", words)
    assert not can_add_halves(clamped(bound, k=96), "C", "word", words)
    with pytest.raises(ProgramError, match="may not fit in 16 bits"):
        added_halves(clamped(bound, k=96), "C", "word", words)


def test_one_more_would_go_round() -> None:
    """A bound that is one too large is no bound: sums of four products of 255 and 33 pass 16 bits."""
    text = str(added_halves(clamped(32, k=8), "C", "word"))
    for number in (32, 33):
        faulty = parse(text.replace("-32)", f"{-number})").replace(", 32)", f", {number})"))
        rows, columns = np.full((5, 8), 255, np.uint8), np.full((8, 6), number, np.int8)
        (found,) = evaluate(faulty, [rows, columns])
        assert ((found == 8 * 255 * number) == (number == 32)).all()


def test_weights_that_are_held_together_may_be_larger() -> None:
    """Whatever weights are given: those that have more together count as nothing, and others reach the ends of 16 bits."""
    blocks = rows_of((-64, -1, 0, 64), 2, np.int8)
    few = np.array(
        [[64, 0, 0, 0, 64, 0, 64, 64], [64, 64, -64, -64, 0, 0, 0, 0], [64, 64, 64, 64, 1, 0, 0, 0]], np.int8
    )
    weights = np.concatenate([blocks, few, -few, np.full((1, 8), -128, np.int8), np.full((1, 8), 127, np.int8)])
    left = rows_of((0, 1, 254, 255), 2, np.uint8)
    program = product(HELD, m=len(left), n=len(weights), k=8)
    added = added_halves(program, "C", "word")
    (found,) = evaluate(added, [left, weights.T.copy()])
    (truth,) = evaluate(program, [left, weights.T.copy()])
    np.testing.assert_array_equal(found, truth)
    both = weights.astype(np.int64).reshape(-1, 2, 2, 2)
    fit = (np.maximum(both, 0).sum((1, 3)) <= 128) & (np.maximum(-both, 0).sum((1, 3)) <= 128)
    kept = np.where(fit[:, None, :, None], np.clip(both, -64, 64), 0).reshape(-1, 8)
    assert 100 < fit.all(axis=1).sum() < len(fit)
    np.testing.assert_array_equal(found, left.astype(np.int64) @ kept.T)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<= 128 and", "<= 129 and"),  # one more does not fit
        ("D[k // 8, k % 4 // 2, j] <= 128", "D[k // 8, k % 4 // 2, j] >= -128"),  # bounds nothing
        ("max(-i32", "max(i32"),  # one side alone
        ("D[k // 8, k % 4 // 2, j]", "D[k // 8, k % 2, j]"),  # others' bound
        ("U[k // 8", "U[(k + 1) % 32 // 8"),
        ("h * 2 + e, j]), 0))\n    D", "h * 2, j]), 0))\n    D"),  # one element twice
        ("t * 4 + h * 2 + e, j]), 0))\n    D", "t * 4 + h + e * 2, j]), 0))\n    D"),  # other elements
        ("max(i32(B[g * 8", "max(i32(V[g * 8"),  # another tensor
        ("max(i32(B[g * 8 + t * 4 + h * 2 + e, j]), 0)", "max(i16(B[g * 8 + t * 4 + h * 2 + e, j]), 0)"),  # narrow sums
        ("-64), 64), 0)", "-64), 64), 1)"),
        ("min(max(B[k, j]", "min(max(B[k, 5 - j]"),
    ],
)
def test_what_does_not_hold_them_together_is_no_bound(old: str, new: str) -> None:
    assert old in HELD
    weights = HELD.replace(old, new)
    if "V[" in weights:
        weights = "V[k: {k}, j: {n}] = B[k, j] // 2\n" + weights
    assert can_add_halves(product(HELD), "C", "word", 2) and not can_add_halves(product(HELD), "C", "word", 4)
    assert not can_add_halves(product(weights), "C", "word", 2)


def test_data_below_zero_are_held_by_nothing() -> None:
    """Where data are moved by 128 they are bytes without a sign; what else is below zero has products on the other side."""
    assert can_add_halves(product(HELD, a="i8"), "C_dots", "word", 2)


def test_a_depth_has_equal_parts() -> None:
    assert can_add_halves(clamped(16, k=12), "C", "word", 3) and not can_add_halves(clamped(16, k=12), "C", "word", 2)
    for depth, words in (("word", 5), ("word", 1)):
        with pytest.raises(ProgramError, match="equal parts"):
            added_halves(clamped(16), "C", depth, words)


def test_no_other_sum_is_one_of_small_bytes() -> None:
    other = parse("input A: i32[5, 16]\nC[i: 5] = sum[k: 16](A[i, k])\nreturn C")
    with pytest.raises(ProgramError, match="no sum of dots of small bytes"):
        added_halves(other, "C", "k")


def test_a_window_adds_words_of_its_channels() -> None:
    program = small_words(
        parse("""
        input X: u8[10, 10, 16]
        constant F: i8[8, 3, 3, 16]
        W[o: 8, r: 3, s: 3, c: 16] = min(max(F[o, r, s, c], -32), 32)
        Y[p: 8, q: 8, o: 8] = sum[r: 3, s: 3, c: 16](i32(X[p + r, q + s, c]) * i32(W[o, r, s, c]))
        return Y
        """),
        "Y",
        "c",
    )
    added = added_halves(program, "Y", "word")
    x, f = random_inputs(program, 5)
    f = np.where(f > 0, 127, -128).astype(np.int8)
    for before, after in zip(evaluate(program, [x, f]), evaluate(added, [x, f]), strict=True):
        np.testing.assert_array_equal(after, before)
