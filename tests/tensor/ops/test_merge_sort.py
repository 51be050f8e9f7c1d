"""Long axes in order: what NumPy's stable sort gives, for lengths beside blocks and runs, equal elements and NaN among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from helpers.operators.sorts import first
from tilesmith.tensor import ops
from tilesmith.tensor.collect import program
from tilesmith.tensor.ops.merge_sort import BLOCK, merged
from tilesmith.tensor.oracle.reference import evaluate

Array = np.ndarray[Any, Any]
ONE = BLOCK + 1


def elements(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Random elements, many of them equal; some are infinite or NaN where there are such."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype in ("i8", "i64"):
        return random.integers(-9, 9, shape).astype({"i8": "int8", "i64": "int64"}[dtype])
    found = random.standard_normal(shape).round(1).astype({"f32": "float32", "f64": "float64"}[dtype])
    found[random.random(shape) < 0.05] = np.nan
    found[random.random(shape) < 0.05] = np.inf
    found[random.random(shape) < 0.05] = -0.0
    return found


CASES = [
    ((2, ONE), ONE, "f32", True), ((BLOCK,), BLOCK, "f32", False), ((3, 2, 2 * BLOCK), 2 * BLOCK, "f64", False),
    ((3 * BLOCK + 1,), 3 * BLOCK + 1, "f32", True), ((2, 5 * BLOCK - 1), 40, "f32", True),
    ((7 * BLOCK + 3,), BLOCK + 5, "f32", False), ((9 * BLOCK,), 1, "f64", True), ((700,), 700, "bool", True),
    ((2, 701), 701, "i8", False), ((4 * BLOCK + 2,), 300, "i64", True),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "count", "dtype", "descending"), CASES)
def test_runs_are_merged_as_a_stable_sort_has_them(
    shape: tuple[int, ...], count: int, dtype: str, descending: bool
) -> None:
    x = ts.placeholder(shape, dtype, "x")
    given = elements(shape, dtype, count)
    found, places = evaluate(program([*merged(x, descending, count)], inputs=[x]), [given])
    wanted, origins = first(given, count, len(shape) - 1, descending)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(places, origins)


@pytest.mark.parametrize(("shape", "count", "axis"), [((1, 3000), 3000, 1), ((2500, 2), 100, 0), ((30, 517), 517, -1)])
def test_compiled_it_is_the_same(shape: tuple[int, ...], count: int, axis: int) -> None:
    made = ops.topk(shape, count, axis)
    assert any("split" in stage.name for stage in made.stages)
    given = elements(shape, "f32", 0)
    found, places = ts.compile(made, threads=2)(given)
    wanted, origins = first(given, count, axis % 2, True)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(places, origins)


def test_short_axes_are_counted() -> None:
    assert not any("split" in stage.name for stage in ops.topk((1, 600), 300).stages)
    assert not any("split" in stage.name for stage in ops.topk((1, 9000), 3).stages)
