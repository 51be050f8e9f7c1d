"""Nested maxima of floats in lanes: a tree of single instructions, and NaN where some operand is NaN."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilesmith
from tilesmith.codegen.emit.extrema import LEAST
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.targets.target import parse_target

SIZE = 70  # no whole number of vectors
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


def nested(name: str, count: int, dtype: str, scalars: int = 0) -> str:
    """An extremum of so many neighbours, nested at alternating sides, and of scalars among them."""
    found = "x[i]"
    for n in range(1, count):
        found = f"{name}({found}, x[i + {n}])" if n % 2 else f"{name}(x[i + {n}], {found})"
    for n in range(scalars):
        found = f"{name}(s[{n}], {found})"
    given = f"input s: {dtype}[{scalars}]\n" if scalars else ""
    return f"{given}input x: {dtype}[{SIZE + count - 1}]\ny[i: {SIZE}] = {found}\nreturn y"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("count", [LEAST, 13])
@pytest.mark.parametrize(("name", "truth"), [("max", np.maximum), ("min", np.minimum)])
def test_special_values_pass(name: str, truth: np.ufunc, count: int, dtype: str) -> None:
    kernel = tilesmith.compile(tilesmith.parse(nested(name, count, dtype)), threads=1)
    random = np.random.default_rng(count)
    for places in range(0, count + 1, 3):
        x = random.standard_normal(SIZE + count - 1).astype(np.dtype("f4" if dtype == "f32" else "f8"))
        x[random.integers(0, len(x), places)] = random.choice(SPECIAL, places)
        wanted = truth.reduce([x[n : n + SIZE] for n in range(count)])
        np.testing.assert_array_equal(kernel(x), wanted)


def test_nan_in_any_place_is_found() -> None:
    count = 11
    kernel = tilesmith.compile(tilesmith.parse(nested("max", count, "f32")), threads=1)
    for place in range(SIZE + count - 1):
        x = np.arange(SIZE + count - 1, dtype=np.float32)
        x[place] = np.nan
        reached = slice(max(0, place - count + 1), place + 1)
        assert np.isnan(kernel(x)[reached]).all()
        assert np.isnan(kernel(x)).sum() == len(range(SIZE)[reached])


def test_scalars_may_be_among_them() -> None:
    kernel = tilesmith.compile(tilesmith.parse(nested("max", 7, "f32", scalars=3)), threads=1)
    x = np.linspace(-1, 1, SIZE + 6, dtype=np.float32)
    wanted = np.maximum(x[6 : SIZE + 6], np.float32(0.25))
    np.testing.assert_array_equal(kernel(np.array([0.25, -3, 0], np.float32), x), wanted)
    assert np.isnan(kernel(np.array([0.25, np.nan, 0], np.float32), x)).all()


def test_one_question_for_two_operands() -> None:
    sketch = parse_sketch("sketch by hand\nstep split(t0.a0, lanes(f32))\nstep vectorize(t0.a0.p1)")
    artifact = build(tilesmith.parse(nested("max", 16, "f32")), sketch, {}, parse_target("host"), 1, texts=True)
    text = artifact.texts["llvm"]
    assert "maximum" not in text
    steps, questions = len(re.findall("fcmp ogt", text)), len(re.findall("fcmp ord", text))
    assert questions and 15 * questions == 8 * steps
