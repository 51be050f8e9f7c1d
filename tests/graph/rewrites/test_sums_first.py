"""Sums over results of products come first where that is less work, and give the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import tilesmith as ts
from tilesmith.graph.rewrites.sums_first import sums_first
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program

TEXT = """
input x: f32[2, 12, 9, 8]
constant w: f32[10, 12, 1, 1]
y[n: 2, o: 10, p: 9, q: 8] = sum[c: 12, r: 1, s: 1](x[n, c, p + r, q + s] * w[o, c, r, s])
{pool}
u[n: 2, c: 10, p: {rows}, q: 4] = t[n, c, p, q] / 4
return u
"""
WHOLE = "t[n: 2, c: 10, p: 4, q: 4] = sum[r: 2, s: 2](y[n, c, p * 2 + r, q * 2 + s])"
PADDED = (
    "t[n: 2, c: 10, p: 5, q: 4] = "
    "sum[r: 2, s: 2](select(p * 2 + r - 1 >= 0, y[n, c, max(p * 2 + r - 1, 0), q * 2 + s], 0))"
)


def program(pool: str, text: str = TEXT) -> Program:
    return ts.parse(text.strip().format(pool=pool, rows=5 if pool == PADDED else 4))


def names(pool: str, text: str = TEXT) -> list[str]:
    return [stage.name for stage in sums_first(program(pool, text)).stages]


def averages(x: NDArray[np.float64], w: NDArray[np.float64], before: int) -> NDArray[np.float64]:
    """The products first, by NumPy; `before`: rows of zeros over the first one."""
    y = np.einsum("ncpq,oc->nopq", x, w[:, :, 0, 0])
    y = np.pad(y, ((0, 0), (0, 0), (before, 0), (0, 0)))
    rows = y.shape[2] // 2
    return y[:, :, : 2 * rows].reshape(2, 10, rows, 2, 4, 2).mean((3, 5))


@pytest.mark.parametrize(("pool", "before"), [(WHOLE, 0), (PADDED, 1)])
def test_values_are_those_of_the_products_first(pool: str, before: int) -> None:
    random = np.random.default_rng(0)
    x, w = random.standard_normal((2, 12, 9, 8)), random.standard_normal((10, 12, 1, 1))
    after = sums_first(program(pool))
    assert [stage.name for stage in after.stages] == ["t_first", "t", "u"]
    (found,) = evaluate(after, [x.astype(np.float32), w.astype(np.float32)])
    np.testing.assert_allclose(found, averages(x, w, before), rtol=1e-4, atol=1e-5)


def test_a_quarter_of_the_products_is_left() -> None:
    after = sums_first(program(WHOLE))
    assert "t_first[n: 2, c_inner: 12, p: 4, q: 4] = sum[r: 2, s: 2](x[" in str(after)
    assert "sum[c_inner: 12](t_first[n, c_inner, p, q] * w[c, c_inner, 0, 0])" in str(after)
    products = [
        np.prod([axis.extent for axis in stage.all_axes]) for stage in (program(WHOLE).stage("y"), after.stage("t"))
    ]
    assert products[0] > 4 * products[1]


def test_results_that_are_needed_themselves_are_computed() -> None:
    assert names(WHOLE, TEXT.replace("return u", "return u, y")) == ["y", "t", "u"]
    assert names(WHOLE, TEXT.replace("return u", "v[n: 2] = y[n, 0, 0, 0]\nreturn u, v")) == ["y", "t", "u", "v"]


@pytest.mark.parametrize(
    "pool",
    [
        "t[n: 2, c: 10, p: 4, q: 4] = max[r: 2, s: 2](y[n, c, p * 2 + r, q * 2 + s])",  # no sum
        "t[n: 2, c: 10, p: 4, q: 4] = sum[r: 2, s: 2](y[n, c, p * 2 + r, q * 2 + s] * y[n, c, p, q])",  # of more than results
        "t[n: 2, c: 10, p: 4, q: 4] = sum[r: 2, s: 2](select(r > 0, y[n, c, p * 2 + r, q * 2 + s], 1))",  # not 0 elsewhere
    ],
)
def test_others_stay_as_they_are(pool: str) -> None:
    assert names(pool) == ["y", "t", "u"]


def test_results_of_which_each_is_in_several_sums_are_computed_once() -> None:
    text = TEXT.replace("u[n: 2, c: 10, p: {rows}, q: 4]", "u[n: 2, c: 10, p: 8, q: 7]")
    assert names("t[n: 2, c: 10, p: 8, q: 7] = sum[r: 2, s: 2](y[n, c, p + r, q + s])", text) == ["y", "t", "u"]


def test_narrow_floats_are_not_rounded_between() -> None:
    assert names(WHOLE, TEXT.replace("f32", "f16")) == ["y", "t", "u"]
