"""Sums over large windows with 3x3 results, with fewer products: as the definition gives them, and who is kept apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.fast_windows.sliding import UNEVEN
from tilesmith.tensor.rewrites.registry import is_allowed, winograd_taps
from tilesmith.tensor.text.parse import parse

INSIDE = "r + i >= {p} and r + i < {h} + {p} and s + j >= {p} and s + j < {w} + {p}"
IMAGE = "select(" + INSIDE + ", x[n, c, r + i - {p}, s + j - {p}], 0)"


def gradient(
    n: int, c: int, o: int, h: int, w: int, border: int = 1, axes: str = "c o r s", dtype: str = "f32"
) -> Program:
    """The gradient of a 3x3 filter, from an image and the gradient of what it made; `axes`: in which order it lies."""
    extents = {"c": c, "o": o, "r": 3, "s": 3}
    rows, columns = h + 2 * border - 2, w + 2 * border - 2
    data = IMAGE.format(p=border, h=h, w=w) if border else "x[n, c, r + i, s + j]"
    return parse(f"""\
input x: {dtype}[{n}, {c}, {h}, {w}]
input g: {dtype}[{n}, {o}, {rows}, {columns}]
d[{", ".join(f"{axis}: {extents[axis]}" for axis in axes.split())}] = \
sum[n: {n}, i: {rows}, j: {columns}]({data} * g[n, o, i, j])
return d""")


def drawn(program: Program, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(i.tensor.shape).astype(np.float32) for i in program.inputs]


@settings(max_examples=25)
@given(
    n=st.integers(1, 3),
    size=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    border=st.integers(0, 2),
    axes=st.sampled_from(["c o r s", "o c r s", "r s o c", "c r o s"]),
    tile=st.sampled_from([2, 4]),
)
def test_it_is_the_same_sum(n: int, size: tuple[int, int], border: int, axes: str, tile: int) -> None:
    program = gradient(n, 2, 3, *size, border, axes)
    inputs = drawn(program)
    (found,), (truth,) = (
        evaluate(one, inputs) for one in (winograd_taps(program, "d", rows="r", columns="s", tile=tile), program)
    )
    np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-11)


def test_a_window_that_ends_inside_of_its_tensors_reads_no_more() -> None:
    program = parse("""\
input x: f32[2, 12, 12]
input g: f32[3, 9, 9]
d[c: 2, o: 3, r: 3, s: 3] = sum[i: 5, j: 6](x[c, r + i + 1, s + j] * g[o, i + 1, j])
return d""")
    inputs = drawn(program)
    (found,), (truth,) = (
        evaluate(one, inputs) for one in (winograd_taps(program, "d", rows="r", columns="s"), program)
    )
    np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("outlier", [np.nan, np.inf, -np.inf, 1e30, 1e6])
@pytest.mark.parametrize("tile", [2, 4])
def test_what_no_window_of_a_result_holds_does_not_reach_it(outlier: float, tile: int) -> None:
    """The first pixel of an image without a border stands in the window of the first result alone."""
    program = gradient(2, 3, 4, 8, 9, border=0)
    fast = winograd_taps(program, "d", rows="r", columns="s", tile=tile)
    image, above = drawn(program)
    spoiled = image.copy()
    spoiled[1, 2, 0, 0] = outlier
    (before,), (found,), (truth,) = (
        evaluate(one, [data, above]) for one, data in ((fast, image), (fast, spoiled), (program, spoiled))
    )
    np.testing.assert_array_equal(found[:2], before[:2])
    np.testing.assert_allclose(found[2], truth[2], rtol=1e-12, atol=1e-12)  # by the definition, in another order
    assert np.isfinite(found[2].reshape(4, 9)[:, 1:]).all()


@pytest.mark.parametrize("outlier", [np.nan, np.inf, 1e30])
def test_huge_taps_are_summed_by_the_definition(outlier: float) -> None:
    program = gradient(2, 3, 4, 8, 9)
    image, above = drawn(program)
    above[0, 1, 3, 3] = outlier
    fast = winograd_taps(program, "d", rows="r", columns="s")
    (found,), (truth,) = (evaluate(one, [image, above]) for one in (fast, program))
    np.testing.assert_allclose(found[:, 1], truth[:, 1], rtol=1e-12, atol=1e-12)
    assert np.isfinite(np.delete(found, 1, 1)).all()


def test_data_as_uneven_as_that_are_transformed() -> None:
    program = gradient(1, 1, 1, 8, 8, border=0)
    fast = winograd_taps(program, "d", rows="r", columns="s")
    assert {"d_spread", "d_exact", "d_gauge"} <= {stage.name for stage in fast.stages}
    shown = replaced_output(fast, "d_spread")
    image, above = np.ones((1, 1, 8, 8), np.float32), np.ones((1, 1, 6, 6), np.float32)
    for size, even in ((0.99 * UNEVEN, True), (1.01 * UNEVEN, False)):
        image[0, 0, 0, 0] = size
        (spread,) = evaluate(shown, [image, above])
        assert np.isfinite(spread[0]) == even


def replaced_output(program: Program, name: str) -> Program:
    return parse(str(program).replace("return d\n", f"return {name}\n"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d[c: 4, o: 4, r: 5, s: 5] = sum[i: 9, j: 9](x[c, r + i, s + j] * g[o, i, j])", "slides to 3 places"),
        ("d[c: 4, o: 4, r: 3, s: 3] = sum[i: 5, j: 5](x[c, r * 2 + i, s * 2 + j] * g[o, i, j])", "steps of one"),
        ("d[c: 4, o: 4, r: 3, s: 3] = max[i: 9, j: 9](x[c, r + i, s + j] * g[o, i, j])", "a sum of products"),
        ("d[c: 4, r: 3, s: 3] = sum[i: 9, j: 9](x[c, r + i, s + j])", "one factor that reads the filter"),
    ],
)
def test_other_sums_are_refused(text: str, expected: str) -> None:
    program = parse(f"input x: f32[4, 13, 13]\ninput g: f32[4, 9, 9]\n{text}\nreturn d")
    with pytest.raises(ProgramError, match=expected):
        winograd_taps(program, "d", rows="r", columns="s")


def test_other_tiles_and_types_are_refused() -> None:
    with pytest.raises(ProgramError, match="unknown tile of winograd_taps"):
        winograd_taps(gradient(1, 2, 2, 8, 8), "d", rows="r", columns="s", tile=3)
    with pytest.raises(ProgramError, match="floating-point data"):
        winograd_taps(gradient(1, 2, 2, 8, 8, border=0, dtype="i32"), "d", rows="r", columns="s")


def test_strict_kernels_have_none() -> None:
    assert is_allowed("winograd_taps", "default")
    assert not is_allowed("winograd_taps", "strict")
