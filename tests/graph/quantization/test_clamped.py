"""Weights that are small bytes say so in the text of a program, and mean what they meant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilesmith
from tilesmith.common.errors import ArgumentError
from tilesmith.graph.model import Model
from tilesmith.graph.quantization.clamped import clamped_weights
from tilesmith.graph.quantization.numbers import HELD, SMALL_BYTE, in_bytes, in_small_bytes, largest_together
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.rewrites.added_halves import can_add_halves
from tilesmith.tensor.rewrites.registry import small_words
from tilesmith.tensor.text.parse import parse

TEXT = """
    input x: u8[6, 20]
    input z: i8[6, 20]
    constant w: i8[20, 7]
    y[i: 6, j: 7] = sum[k: 20](i32(x[i, k]) * i32(w[k, j]))
    v[i: 6, j: 7] = sum[k: 20](i32(z[i, k]) * i32(w[k, j]))
    return y, v
    """


def given(least: int, most: int, text: str = TEXT) -> Model:
    program, rng = parse(text), np.random.default_rng(0)
    values = {t.name: rng.integers(least, most + 1, t.shape).astype(t.dtype.numpy) for t in program.constant_inputs}
    for value in values.values():
        value.flat[:2] = least, most
    return Model(program, values, "given")


def test_small_weights_are_clamped_once_and_mean_the_same() -> None:
    before = given(-SMALL_BYTE, SMALL_BYTE)
    after = clamped_weights(before)
    assert [stage.name for stage in after.program.stages] == ["w_clamped", "y", "v"]
    assert "min(max(w[d0, d1], -64), 64)" in str(after.program) and "i32(w[" not in str(after.program)
    inputs = [*random_inputs(before.program, 3)[:2], before.constants["w"]]
    for old, new in zip(evaluate(before.program, inputs), evaluate(after.program, inputs), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(("least", "most"), [(-65, 64), (-64, 65), (-128, 127)])
def test_larger_weights_stay(least: int, most: int) -> None:
    before = given(least, most)
    assert clamped_weights(before) is before


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("20", "12"),  # too short for words
        TEXT.replace("i8[20, 7]", "u8[20, 7]"),
        TEXT.replace("i32(", "f32("),
        TEXT.replace("constant w", "input w"),
    ],
)
def test_other_sums_stay(text: str) -> None:
    before = given(0, 3, text)
    assert clamped_weights(before) is before


DEEP = TEXT.replace("20", "24")


def test_weights_that_are_small_together_say_so() -> None:
    before = given(-20, 20, DEEP)
    values = before.constants["w"].copy()
    values[8:16, 3] = [64, -64, 1, 1, 64, -64, 1, 1]  # 128 above zero in a half, and 128 below
    before = replace(before, constants={**before.constants, "w": values})
    after = clamped_weights(before)
    assert [stage.name for stage in after.program.stages] == ["w_above", "w_below", "w_clamped", "y", "v"]
    inputs = [*random_inputs(before.program, 3)[:2], values]
    for old, new in zip(evaluate(before.program, inputs), evaluate(after.program, inputs), strict=True):
        np.testing.assert_array_equal(old, new)
    words = small_words(after.program, "y", "k")
    assert can_add_halves(words, "y", "word", 2)
    values[9, 3] = 1
    more = clamped_weights(replace(before, constants={**before.constants, "w": values}))
    assert [stage.name for stage in more.program.stages] == ["w_clamped", "y", "v"]
    assert not can_add_halves(small_words(more.program, "y", "k"), "y", "word", 2)


def test_each_depth_of_a_constant_is_looked_at() -> None:
    """A constant that is read along either dimension is held along one, and clamped by itself along the other."""
    text = """
        input x: u8[6, 24]
        constant w: i8[24, 24]
        y[i: 6, j: 24] = sum[k: 24](i32(x[i, k]) * i32(w[k, j]))
        z[i: 6, j: 24] = sum[k: 24](i32(x[i, k]) * i32(w[j, k]))
        return y, z
        """
    values = np.zeros((24, 24), np.int8)
    values[:, 0] = 1
    values[0] = 64
    before = Model(parse(text), {"w": values}, "both")
    after = clamped_weights(before)
    assert can_add_halves(small_words(after.program, "y", "k"), "y", "word", 2)
    assert not can_add_halves(small_words(after.program, "z", "k"), "z", "word", 2)
    inputs = [random_inputs(before.program, 3)[0], values]
    for old, new in zip(evaluate(before.program, inputs), evaluate(after.program, inputs), strict=True):
        np.testing.assert_array_equal(old, new)


def test_scales_of_seven_bits_leave_room() -> None:
    """Weights that are all large on one side get a larger scale, others the usual one; along a depth without blocks all do."""
    values = np.random.default_rng(0).standard_normal((24, 4))
    values[:, 1] = 1.0
    values[:, 2] = -2.0
    values[:, 3] = 0.0
    rounded, scales = in_small_bytes(values, (0,))
    assert int(largest_together(rounded, 0).max()) <= HELD
    np.testing.assert_array_equal(np.abs(rounded).max(axis=0)[1:], [32, 32, 0])
    assert np.abs(rounded * scales - values).max() <= scales.max() / 2
    odd, usual = in_small_bytes(values[:20], (0,)), in_bytes(values[:20], (0,), SMALL_BYTE)
    for one, other in zip(odd, usual, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_is_together_is_what_meets_in_a_half(depth: int) -> None:
    rng = np.random.default_rng(depth)
    weights = np.moveaxis(rng.integers(-64, 65, (3, 5, 16)).astype(np.int8), 2, depth)
    found = np.moveaxis(largest_together(weights, depth), depth, -1)
    flat = np.moveaxis(weights, depth, -1).astype(int)
    for block in range(2):
        halves = [flat[..., [8 * block + n for n in places]] for places in ((0, 1, 4, 5), (2, 3, 6, 7))]
        sides = [np.maximum(sign * half, 0).sum(-1) for half in halves for sign in (1, -1)]
        np.testing.assert_array_equal(found[..., block], np.max(sides, axis=0))


MLP = """
    input x: f32[6, 64]
    constant w: f32[64, 48]
    h[i: 6, j: 48] = sum[k: 64](x[i, k] * w[k, j])
    y[i: 6, j: 48] = max(h[i, j], 0)
    return y
    """


def test_weights_of_seven_bits_are_clamped_and_have_twice_the_error() -> None:
    rng = np.random.default_rng(0)
    before = Model(parse(MLP), {"w": rng.standard_normal((64, 48)).astype(np.float32)}, "mlp")
    calls = [(rng.standard_normal((6, 64)).astype(np.float32),) for _ in range(2)]
    errors = {}
    for bits in (8, 7):
        after = tilesmith.quantize(before, "static-int8", calibration=calls, weight_bits=bits, threads=1)
        (weights,) = [value for name, value in after.constants.items() if value.dtype == np.int8]
        assert np.abs(weights.astype(int)).max() == (127 if bits == 8 else SMALL_BYTE)
        assert any("_clamped" in stage.name for stage in after.program.stages) is (bits == 7)
        errors[bits] = after.report.layers[0].weights_error
    assert errors[7] == pytest.approx(2 * errors[8], rel=0.1)


@pytest.mark.parametrize(
    ("scheme", "bits", "says"),
    [
        ("dynamic-int8", 6, "8 bits or 7"),
        ("int8", 7, "no products of integers"),
        ("bf16", 7, "no products of integers"),
    ],
)
def test_bits_that_a_scheme_does_not_have_are_one_error(scheme: str, bits: int, says: str) -> None:
    before = Model(parse(MLP), {"w": np.zeros((64, 48), np.float32)}, "mlp")
    with pytest.raises(ArgumentError, match=says):
        tilesmith.quantize(before, scheme, weight_bits=bits)
