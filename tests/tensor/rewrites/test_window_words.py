"""Sums over words of neighbouring points of a window, against the original by the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.registry import window_words
from tilesmith.tensor.rewrites.window_words import can_window_words
from tilesmith.tensor.text.parse import parse


def image(size: int = 3, stride: int = 1, dilation: int = 1, kinds: tuple[str, str] = ("u8", "i8")) -> Program:
    """A filter of three colours over an image without a border."""
    wide = 4 * stride + dilation * (size - 1) + 1
    return parse(f"""
        input x: {kinds[0]}[3, {wide}, {wide}]
        constant w: {kinds[1]}[6, 3, {size}, {size}]
        y[p: 5, q: 5, o: 6] = sum[c: 3, r: {size}, s: {size}](
            i32(x[c, p * {stride} + r * {dilation}, q * {stride} + s * {dilation}]) * i32(w[o, c, r, s]))
        return y
        """)


@pytest.mark.parametrize("size", [2, 3, 4, 7])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("axis", ["r", "s"])
def test_sums_over_words_are_the_same(size: int, stride: int, dilation: int, axis: str) -> None:
    program = image(size, stride, dilation)
    words = window_words(program, "y", axis)
    assert parse(str(words)) == words and "pair_dot(" in str(words)
    assert [a.extent for a in words.stage("y").reduction if a.name == "pair"] == [-(-size // 2)]
    inputs = random_inputs(program, 3)
    for before, after in zip(evaluate(program, inputs), evaluate(words, inputs), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("kinds", [("i8", "i8"), ("u8", "u8"), ("i16", "i8")])
def test_ends_of_all_kinds_are_exact(kinds: tuple[str, str]) -> None:
    program = image(kinds=kinds)
    x, w = (np.zeros(i.tensor.shape, i.tensor.dtype.numpy) for i in program.inputs)
    x[...] = np.iinfo(x.dtype).max
    x[:, ::2] = np.iinfo(x.dtype).min
    w[...] = np.iinfo(w.dtype).min
    w[1::2] = np.iinfo(w.dtype).max
    (before,), (after,) = evaluate(program, [x, w]), evaluate(window_words(program, "y", "s"), [x, w])
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q * 1 + s * 1", "q * 1 - s * 1 + 2"),  # it slides the other way
        ("q * 1 + s * 1", "s * 1"),  # nothing slides
        ("w[o, c, r, s]", "w[o, c, r, 2 - s]"),  # no plain index
        ("i32(x[c", "f32(x[c"),  # no integers
    ],
)
def test_other_sums_are_refused(old: str, new: str) -> None:
    text = str(image()).replace("p + r, q + s", "p * 1 + r * 1, q * 1 + s * 1")
    assert old in text
    text = text.replace(old, new)
    program = parse(text.replace("* i32(w", "* f32(w") if "f32(x" in new else text)
    assert not can_window_words(program, "y", "s")
    with pytest.raises(ProgramError):
        window_words(program, "y", "s")


def test_an_axis_that_is_no_window_is_refused() -> None:
    assert not can_window_words(image(), "y", "c")
    assert can_window_words(image(), "y", "r")
