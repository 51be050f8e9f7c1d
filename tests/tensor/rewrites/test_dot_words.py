"""dot_words and bf16_dots: sums over words are those over elements, whatever types, windows and depths there are."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.dot_words import bf16_dots, can_dot, dot_words, half_words, is_packed
from tilesmith.tensor.text.parse import parse

PRODUCT = """
    input A: {a}[5, {k}]
    input B: {b}[{k}, 7]
    C[i: 5, j: 7] = sum[k: {k}]({wide}(A[i, k]) * {wide}(B[k, j]))
    return C
    """
WINDOW = """
    input X: i8[9, 3, 11]
    input W: i8[3, 2, 11, 6]
    Y[p: 4, o: 6] = sum[r: 3, s: 2, c: 11](i32(X[2 * p + r, s, c]) * i32(W[r, s, c, o]))
    return Y
    """


def product(a: str, b: str, k: int = 13) -> Program:
    return parse(PRODUCT.format(a=a, b=b, k=k, wide="f32" if "bf16" in (a, b) else "i32"))


def whole_range(program: Program, seed: int) -> list[np.ndarray]:
    """Inputs with all values that their types have."""
    rng = np.random.default_rng(seed)
    kinds = [(declared.tensor.dtype.numpy, declared.tensor.shape) for declared in program.inputs]
    return [rng.integers(np.iinfo(k).min, np.iinfo(k).max, shape, k, endpoint=True) for k, shape in kinds]


def same(program: Program, rewritten: Program) -> None:
    inputs = whole_range(program, 1)
    for one, other in zip(evaluate(program, inputs), evaluate(rewritten, inputs), strict=True):
        np.testing.assert_array_equal(one, other)
    assert parse(str(rewritten)) == rewritten


@pytest.mark.parametrize("k", [12, 13, 14, 15, 1])
@pytest.mark.parametrize(("a", "b"), [("u8", "i8"), ("i8", "u8"), ("i16", "i16"), ("i16", "u8"), ("i8", "i16")])
def test_products_of_integers(a: str, b: str, k: int) -> None:
    program = product(a, b, k)
    same(program, dot_words(program, "C", "k"))


GROUPS = """
    input A: {a}[5, {size}]
    input B: {b}[{size}, 7]
    C[g: 3, i: 5, j: 7] = sum[k: {k}](i32(A[i, {step} * g + k]) * i32(B[{step} * g + k, j]))
    return C
    """


@pytest.mark.parametrize(("a", "b", "moved"), [("u8", "i8", ""), ("i8", "i8", "A"), ("i16", "i16", "")])
@pytest.mark.parametrize("step", [16, 8])  # groups side by side, and some that overlap
def test_groups_of_the_depth_begin_with_whole_words(a: str, b: str, moved: str, step: int) -> None:
    program = parse(GROUPS.format(a=a, b=b, size=48, step=step, k=16))
    rewritten = dot_words(program, "C", "k", moved)
    assert {axis.extent for axis in rewritten.stage("C_left").axes} == {5, 12 if "16" not in a else 24}
    same(program, rewritten)


@pytest.mark.parametrize(("size", "step", "k"), [(48, 15, 16), (48, 16, 14), (50, 16, 16)])
def test_groups_that_begin_within_a_word_are_refused(size: int, step: int, k: int) -> None:
    program = parse(GROUPS.format(a="u8", b="i8", size=size, step=step, k=k))
    assert not can_dot(program, "C", "k")
    with pytest.raises(ProgramError, match="does not walk along"):
        dot_words(program, "C", "k")


@pytest.mark.parametrize("k", [12, 13, 1])
@pytest.mark.parametrize(("a", "b"), [("u8", "i8"), ("i8", "i8"), ("u8", "u8"), ("i16", "i16"), ("i16", "u8")])
def test_words_of_halves_hold_integers_of_any_kind(a: str, b: str, k: int) -> None:
    program = product(a, b, k)
    rewritten = half_words(program, "C", "k")
    same(program, rewritten)
    assert [stage.name for stage in rewritten.stages] == ["C_left", "C_right", "C"], "nothing is moved"
    assert rewritten.tensors["C_left"].shape == (5, -(-k // 2))


@pytest.mark.parametrize("moved", ["A", "B"])
@pytest.mark.parametrize("kind", ["u8", "i8"])
def test_operands_with_the_same_sign_are_moved_and_put_back(kind: str, moved: str) -> None:
    program = product(kind, kind)
    rewritten = dot_words(program, "C", "k", moved=moved)
    same(program, rewritten)
    (sums,) = (stage for stage in rewritten.stages if stage.name == "C_sums")
    assert {read.tensor for read in sums.reads()} == {"A", "B"} - {moved}, "the other one is summed"


@pytest.mark.parametrize("moved", ["X", "W"])
def test_a_window_slides_over_words(moved: str) -> None:
    program = parse(WINDOW)
    if moved == "W":  # what X adds up to depends on the place of the window alone
        same(program, dot_words(program, "Y", "c", moved=moved))
    rewritten = dot_words(program, "Y", "c", moved="X")
    same(program, rewritten)
    assert rewritten.tensors["Y_left"].shape == (9, 3, 3) and rewritten.tensors["Y_right"].shape == (3, 2, 3, 6)


def test_products_of_bfloat16() -> None:
    program = product("bf16", "bf16")
    inputs = random_inputs(program, 3)
    one, other = (evaluate(each, inputs)[0] for each in (program, bf16_dots(program, "C", "k")))
    np.testing.assert_allclose(one, other, rtol=1e-12)


CAUSAL = """
    input P: bf16[{n}, {n}]
    input V: bf16[{n}, 5]
    O[i: {n}, d: 5] = sum[j: {n}](select({seen}, f32(P[i, j]) * f32(V[j, d]), 0))
    return O
    """


@pytest.mark.parametrize("seen", ["j <= i", "j + 3 <= i", "j <= i and j < 11", "2 * j <= i"])
@pytest.mark.parametrize("n", [16, 17])
def test_terms_may_end_early_in_the_middle_of_a_word(n: int, seen: str) -> None:
    """What does not count may be infinite: 0 times that would be no zero."""
    program = parse(CAUSAL.format(n=n, seen=seen))
    rewritten = bf16_dots(program, "O", "j")
    inputs = list(random_inputs(program, 3))
    inputs[1][n // 2 + 1 :] = np.full(5, 0x7F80, np.uint16).view(inputs[1].dtype)
    one, other = (evaluate(each, inputs)[0] for each in (program, rewritten))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    assert np.isfinite(one).any() and parse(str(rewritten)) == rewritten


@pytest.mark.parametrize("seen", ["j >= i", "i + j < 9 or j < 3"])
def test_terms_that_begin_late_are_refused(seen: str) -> None:
    with pytest.raises(ProgramError, match="does not end j"):
        bf16_dots(parse(CAUSAL.format(n=16, seen=seen)), "O", "j")


def test_stages_that_pack_are_known_by_their_form() -> None:
    rewritten = dot_words(product("u8", "i8"), "C", "k")
    assert [stage.name for stage in rewritten.stages if is_packed(stage)] == ["C_left", "C_right"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (PRODUCT.format(a="i32", b="i32", k=8, wide="i32"), "no sum of products of narrow elements"),
        (PRODUCT.format(a="u8", b="i8", k=8, wide="i64"), "no sum of products of narrow elements"),
        (PRODUCT.format(a="i8", b="i8", k=8, wide="i32"), "both operands have a sign, or none"),
        (PRODUCT.format(a="bf16", b="bf16", k=8, wide="f32"), "sums products of floats"),
        (PRODUCT.format(a="u8", b="i8", k=8, wide="i32").replace("B[k, j]", "B[7 - k, j]"), "does not walk along B"),
        (
            PRODUCT.format(a="u8", b="i8", k=8, wide="i32").replace("sum[", "max["),
            "no sum of products of narrow elements",
        ),
    ],
)
def test_what_no_dot_computes_is_refused(text: str, problem: str) -> None:
    program = parse(text)
    with pytest.raises(ProgramError, match=problem):
        dot_words(program, "C", "k")
    with pytest.raises(ProgramError):
        dot_words(program, "C", "i")


def test_words_of_halves_hold_no_floats() -> None:
    with pytest.raises(ProgramError, match="sums products of floats"):
        half_words(product("bf16", "bf16"), "C", "k")


def test_whether_it_applies_can_be_asked() -> None:
    assert can_dot(product("i8", "i8"), "C", "k") and can_dot(product("bf16", "bf16"), "C", "k")
    assert not can_dot(product("i8", "i8"), "C", "i") and not can_dot(product("i8", "i32"), "C", "k")
