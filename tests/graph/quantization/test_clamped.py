"""Weights that are small bytes say so in the text of a program, and mean what they meant."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith
from tilesmith.common.errors import ArgumentError
from tilesmith.graph.model import Model
from tilesmith.graph.quantization.clamped import clamped_weights
from tilesmith.graph.quantization.numbers import SMALL_BYTE
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
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
