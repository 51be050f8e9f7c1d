"""The sign of a float, zeros' too, is one comparison of integers in the code, and the oracle's everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.tensor.composites import is_negative
from tilesmith.tensor.dtype import DTYPES, i64
from tilesmith.tensor.expr import Read, Var
from tilesmith.tensor.wholes import whole


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_signs_of_all_kinds_of_numbers(dtype: str) -> None:
    some = np.array([0.0, 5e-324, 1e-45, 1e-310, 1e-40, 1.0, 3e38, np.inf, np.nan], DTYPES[dtype].numpy)
    x = np.resize(np.concatenate([some, -some]), 70)
    n = x.size
    given = ts.placeholder((n,), dtype)
    program = ts.program(ts.compute((n,), lambda i: ts.select(is_negative(given[i]), ts.literal(1, dtype), 0)))
    kernel = ts.compile(program, threads=1)
    assert "fdiv" not in kernel.text("llvm")
    np.testing.assert_array_equal(kernel(x), np.signbit(x) & ~np.isnan(x))


def test_a_comparison_of_integers_is_none() -> None:
    read = Read("x", (Var("i"),), i64)
    assert whole(ts.select(read.equal(0), read, read) < 0) is None
    x = Read("x", (Var("i"),), DTYPES["f32"])
    assert whole(is_negative(x)) == ("is_negative", x)
    assert whole(ts.select(x.equal(0), 1 / x, x) < 1) is None
