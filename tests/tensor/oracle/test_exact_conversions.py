"""Conversions that round nothing have no error: what comes of them is checked to the last bit, what they decide is decided."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import bounded
from tilesmith.tensor.text.parse import parse

INTEGERS = ("bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
FLOATS = ("f64", "f32", "f16", "bf16")
PAIRS = [(source, dtype) for source in (*INTEGERS, *FLOATS) for dtype in FLOATS if source != dtype]
NONE = 2.0**-125  # what is no more is none: a kernel may flush what is less than the least normal number
BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


def tolerance(text: str, *inputs: np.ndarray) -> np.ndarray:
    """Of the only output."""
    program = parse(text)
    ((_, found),) = bounded(program, inputs or random_inputs(program, 1))
    return found


@pytest.mark.parametrize(("source", "dtype"), PAIRS)
def test_small_whole_numbers_are_converted_exactly(source: str, dtype: str) -> None:
    value = "x[i]" if source == "bool" else f"({source}(i % 13) + x[i] * 0)"
    if source in FLOATS:
        value = f"{source}(i % 13)"
    found = tolerance(f"input x: {source}[40]\ny[i: 40] = {dtype}({value})\nreturn y")
    assert (found <= NONE).all()
    flags = f"input x: {source}[40]\ny[i: 40] = floor({dtype}({value})) > 3\nreturn y"
    assert not tolerance(flags).any()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("source", ["i16", "i32", "i64"])
def test_whole_numbers_round_from_where_a_type_has_no_places(source: str, dtype: str) -> None:
    limit = 2 ** BITS[dtype]
    values = np.array([limit - 1, limit, limit + 1, -limit, -limit - 1], np.float64)
    if np.abs(values).max() >= 2.0 ** (DTYPES[source].bits - 1):
        values = np.zeros(5)
    found = tolerance(f"input x: {source}[5]\ny[i: 5] = {dtype}(x[i])\nreturn y", values.astype(DTYPES[source].numpy))
    assert (found > NONE).tolist() == (np.abs(values) > limit).tolist()


@pytest.mark.parametrize("value", [1.0, 0.25, 65504.0, 2.0**-14, 2.0**-24, 3 * 2.0**-24])
def test_floats_that_a_narrower_type_holds_are_converted_exactly(value: float) -> None:
    x = np.array([value, value * (1 + 2.0**-20), -value], np.float32)
    found = tolerance("input x: f32[3]\ny[i: 3] = f16(x[i])\nreturn y", x)
    assert (found > NONE).tolist() == [False, True, False]


def test_what_was_rounded_before_stays_so() -> None:
    """A number that a rounding may move is converted with its error, and with the rounding that this may cost."""
    x = np.array([0.1, 0.5], np.float32)
    found = tolerance("input x: f32[2]\ny[i: 2] = f16(x[i] * 3)\nz[i: 2] = f32(y[i])\nreturn z", x)
    assert (found >= 2.0**-11 * 3 * x).all()


def test_whole_numbers_that_may_be_others_are_converted_with_that_error_alone() -> None:
    x = np.array([1 / 3, 0.5], np.float32)  # times 3: 1, or a little less
    found = tolerance("input x: f32[2]\ny[i: 2] = bf16(i16(x[i] * 3))\nreturn y", x)
    assert found[0] == pytest.approx(1, rel=1e-6) and found[1] <= NONE


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_literals_that_a_type_holds_are_exact(dtype: str) -> None:
    text = f"table w: {dtype}[4] = [1, -0.5, 3, 0.1]\ny[i: 4] = w[i] > 0.05\nz[i: 4] = f32(w[i])\nreturn z"
    assert (tolerance(text) > NONE).tolist() == [False, False, False, True]


def test_rounding_down_what_was_converted_is_decided() -> None:
    """An index, converted twice and rounded down, would be one less if a conversion had an error."""
    text = """
        t[i: 65, j: 3] = sum[r: 3](min(max(f32(floor(f16(bf16(j // 2)))), -2), 2))
        u[i: 33, j: 64] = 1 - bf16(f32(bf16(t[2 * j % 65, i % 3])))
        return u
        """
    assert tolerance(text).max() < 0.05
