"""quantize: small models in each scheme against their floats, what is stored, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesmith
from tilesmith.common.errors import ArgumentError
from tilesmith.graph.model import Model
from tilesmith.graph.quantization.numbers import bf16_bits, half_bytes_as_floats, in_bytes, in_half_bytes
from tilesmith.graph.quantization.products import weighted_sums
from tilesmith.tensor.text.parse import parse

Array = np.ndarray[Any, Any]
MLP = """
    input x: f32[6, 64]
    constant W1: f32[96, 64]
    constant b1: f32[96]
    constant W2: f32[96, 32]
    h[i: 6, j: 96] = sum[k: 64](x[i, k] * W1[j, k])
    a[i: 6, j: 96] = max(h[i, j] + b1[j], 0)
    y[i: 6, j: 32] = sum[k: 96](a[i, k] * W2[k, j])
    return y
    """
CONV = """
    input x: f32[1, 8, 9, 9]
    constant W: f32[12, 8, 3, 3]
    constant V: f32[20, 12]
    c[o: 12, p: 9, q: 9] = sum[i: 8, r: 3, s: 3](
        select(p + r >= 1 and p + r < 10 and q + s >= 1 and q + s < 10, x[0, i, p + r - 1, q + s - 1], 0) * W[o, i, r, s])
    d[o: 12, p: 9, q: 9] = max(c[o, p, q], 0)
    m[o: 12] = sum[p: 9, q: 9](d[o, p, q])
    y[j: 20] = sum[o: 12](m[o] * V[j, o])
    return y
    """
ATTENTION = """
    input x: f32[10, 32]
    constant Q: f32[32, 32]
    constant K: f32[32, 32]
    constant V: f32[32, 32]
    q[i: 10, j: 32] = sum[k: 32](x[i, k] * Q[k, j])
    u[i: 10, j: 32] = sum[k: 32](x[i, k] * K[k, j])
    v[i: 10, j: 32] = sum[k: 32](x[i, k] * V[k, j])
    s[i: 10, j: 10] = sum[k: 32](q[i, k] * u[j, k])
    top[i: 10] = max[j: 10](s[i, j])
    e[i: 10, j: 10] = exp((s[i, j] - top[i]) * 0.01)
    l[i: 10] = sum[j: 10](e[i, j])
    o[i: 10, d: 32] = sum[j: 10](e[i, j] * v[j, d])
    y[i: 10, d: 32] = o[i, d] / l[i]
    return y
    """
PRODUCT = """
    input x: f32[6, 64]
    constant W: f32[96, 64]
    y[i: 6, j: 96] = sum[k: 64](x[i, k] * W[j, k])
    return y
    """
TEXTS = {"mlp": MLP, "conv": CONV, "attention": ATTENTION}
SCHEMES = ("int8", "int4", "dynamic-int8", "static-int8", "bf16")
SOME = {"conv": ("int8", "static-int8"), "attention": ("int4", "dynamic-int8")}  # that are tried always
# the largest error of outputs in the root mean square, of theirs
ERRORS = {"int8": 0.015, "int4": 0.2, "dynamic-int8": 0.025, "static-int8": 0.03, "bf16": 0.006}


def model(name: str) -> Model:
    program = parse({**TEXTS, "product": PRODUCT}[name])
    rng = np.random.default_rng(0)
    values = {t.name: rng.standard_normal(t.shape).astype(np.float32) for t in program.constant_inputs}
    return Model(program, values, name)


def sample(given: Model, seed: int = 1) -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(t.shape).astype(np.float32) for t in given.program.dynamic_inputs)


def difference(old: Array, new: Array) -> float:
    return float(np.sqrt(np.mean((old - new) ** 2)) / np.sqrt(np.mean(old**2)))


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        pytest.param(name, scheme, marks=() if name == "mlp" or scheme in SOME[name] else pytest.mark.slow)
        for name in TEXTS
        for scheme in SCHEMES
    ],
)
def test_results_are_near_those_in_float(name: str, scheme: str) -> None:
    before = model(name)
    calibration = [sample(before, seed) for seed in range(4)]
    after = tilesmith.quantize(before, scheme, calibration=calibration, threads=1)
    inputs = sample(before, 9)  # which calibration has not seen
    old, new = (tilesmith.compile(one, threads=1)(*inputs) for one in (before, after))
    assert 0 < difference(old, new) < ERRORS[scheme]
    assert after.report.error is not None and 0 < after.report.error < ERRORS[scheme]
    assert after.report.narrow < (0.6 if scheme == "bf16" else 0.35) * after.report.weights
    assert sum(layer.share for layer in after.report.layers) == pytest.approx(1)


@pytest.mark.parametrize("scheme", ["int4", "static-int8"])
def test_a_quantised_model_is_saved_and_loaded(scheme: str, tmp_path: Path) -> None:
    before = model("mlp")
    after = tilesmith.quantize(before, scheme, calibration=[sample(before)], threads=1)
    after.save(tmp_path / "saved")
    again = tilesmith.load(tmp_path / "saved")
    inputs = sample(before)
    one, other = (tilesmith.compile(each, threads=1)(*inputs) for each in (after, again))
    np.testing.assert_array_equal(one, other)
    assert not any(name in again.constants for name in ("W1", "W2")) and "b1" in again.constants


def test_products_are_found_by_their_structure() -> None:
    assert [one.stage.name for one in weighted_sums(model("attention").program)] == ["q", "u", "v"]
    (one,) = weighted_sums(model("conv").program)  # the second constant is too small to be worth it
    assert one.guard is not None and one.summed == (1, 2, 3) and one.kept == (0,) and one.rows is None


def test_data_that_several_products_read_are_rounded_once() -> None:
    after = tilesmith.quantize(model("attention"), "dynamic-int8", threads=1)
    assert sum(stage.name.startswith("x_bytes") for stage in after.program.stages) == 1


def test_data_without_a_sign_have_all_of_8_bits() -> None:
    before = model("mlp")
    after = tilesmith.quantize(before, "static-int8", calibration=[sample(before)], threads=1)
    types = {stage.name: stage.tensors[0].dtype.name for stage in after.program.stages}
    assert types["x_bytes"] == "i8" and types["a_bytes"] == "u8"  # behind a max with 0


def test_a_percentile_leaves_outliers_out() -> None:
    before = model("product")
    (x,) = sample(before)
    x[0, 0] = 1e4
    whole, most = (
        tilesmith.quantize(before, "static-int8", calibration=[(x,)], percentile=p, threads=1) for p in (None, 99.0)
    )
    usual = sample(before, 5)
    old, one, other = (tilesmith.compile(each, threads=1)(*usual) for each in (before, whole, most))
    assert difference(old, other) < 0.1 and difference(old, one) > 0.5


def test_numbers_of_four_bits_are_the_nearest() -> None:
    values = np.random.default_rng(0).standard_normal((5, 64))
    packed, scales = in_half_bytes(values, 1, 16)
    assert packed.shape == (5, 32) and packed.dtype == np.uint8 and scales.dtype == np.float16
    back = half_bytes_as_floats(packed, scales, 1, 16)
    step = np.repeat(scales.astype(np.float64), 16, axis=1)
    assert np.all(np.abs(back - values) <= 0.501 * step)  # of a scale that f16 has rounded, the largest may be cut off
    turned, turned_scales = in_half_bytes(values.T, 0, 16)
    np.testing.assert_array_equal(turned, packed.T)
    np.testing.assert_array_equal(turned_scales, scales.T)


def test_numbers_of_eight_bits_are_the_nearest() -> None:
    values = np.random.default_rng(0).standard_normal((5, 7, 3))
    values[2] = 0
    rounded, scales = in_bytes(values, (1, 2))
    assert np.all(np.abs(rounded * scales[:, None, None].astype(np.float64) - values) <= 0.5001 * scales[:, None, None])
    assert scales[2] == 1 and not rounded[2].any()


def test_bfloat16_is_rounded_to_even() -> None:
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-7), 3e38], np.float32)
    assert [hex(b) for b in bf16_bits(values)] == ["0x3f80", "0x3f80", "0x3f82", "0xbf81", "0x7f62"]


@pytest.mark.parametrize(
    ("scheme", "options", "says"),
    [
        ("int3", {}, "unknown scheme 'int3'"),
        ("static-int8", {}, "needs calibration"),
        ("int4", {"group": 3}, "even group"),
        ("static-int8", {"percentile": 0.0}, "percentile"),
        ("static-int8", {"calibration": 3}, "no list of inputs"),
        ("static-int8", {"calibration": [()]}, "another number of inputs"),
        (
            "static-int8",
            {"calibration": [np.zeros((6, 63), np.float32)]},
            r"calibration\[0\] \(x\) has the wrong shape",
        ),
        ("static-int8", {"calibration": [np.zeros((6, 64))]}, r"calibration\[0\] \(x\) has the wrong dtype"),
        ("static-int8", {"calibration": [np.full((6, 64), np.nan, np.float32)]}, "cannot be quantised"),
    ],
)
def test_what_cannot_be_done_is_one_error(scheme: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        tilesmith.quantize(model("mlp"), scheme, threads=1, **options)


def test_a_model_without_products_is_refused() -> None:
    plain = Model(parse("input x: f32[8]\ny[i: 8] = x[i] * 2\nreturn y"))
    with pytest.raises(ArgumentError, match="nothing to quantise"):
        tilesmith.quantize(plain, "int8")


def test_weights_that_are_no_numbers_are_refused() -> None:
    given = model("mlp")
    values = {**given.constants, "W1": np.full((96, 64), np.inf, np.float32)}
    with pytest.raises(ArgumentError, match="W1 cannot be quantised"):
        tilesmith.quantize(Model(given.program, values), "int4", threads=1)


def test_the_report_is_a_table_by_layer() -> None:
    given = model("mlp")
    text = str(tilesmith.quantize(given, "int4", calibration=[sample(given)], threads=1).report)
    lines = text.splitlines()
    assert len(lines) == 4 and "int4 in groups of 64" in lines[1] and "int4 in groups of 48" in lines[2]
    assert lines[3].startswith("all")
