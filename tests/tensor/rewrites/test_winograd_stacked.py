"""Fast convolutions of films: the pictures that 3x3x3 filters see at once are transformed once each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.lowering.derived import assert_runs, body_of, some_configs
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.registry import winograd, winograd_integers
from tilesmith.tensor.text.parse import parse

LAYOUTS = ("n c p q u", "n p q u c")


def film(pictures: int, depth: int, size: tuple[int, int], layout: str, border: int = 1, dtype: str = "f32") -> Program:
    """Two films, three channels to four, `depth` pictures at once, zeros all around where there is a border."""
    extents = {"n": 2, "c": 3, "p": pictures, "q": size[0], "u": size[1]}
    windows = {"p": ("r", depth), "q": ("s", 3), "u": ("t", 3)}
    results = {axis: extents[axis] + 2 * border - window + 1 for axis, (_, window) in windows.items()}
    places = {axis: f"{axis} + {name} - {border}" for axis, (name, _) in windows.items()}
    axes = layout.split()
    read = f"x[{', '.join(places.get(axis, axis) for axis in axes)}]"
    if border:
        inside = " and ".join(f"{place} >= 0 and {place} < {extents[axis]}" for axis, place in places.items())
        read = f"select({inside}, {read}, 0)"
    term = f"{read} * w[o, c, r, s, t]" if dtype == "f32" else f"i32({read}) * i32(w[o, c, r, s, t])"
    made = {"o" if axis == "c" else axis: {**extents, **results, "c": 4}[axis] for axis in axes}
    return parse(f"""\
input x: {dtype}[{", ".join(str(extents[axis]) for axis in axes)}]
constant w: {dtype}[4, 3, {depth}, 3, 3]
y[{", ".join(f"{axis}: {extent}" for axis, extent in made.items())}] = sum[c: 3, r: {depth}, s: 3, t: 3]({term})
return y""")


@settings(max_examples=25)
@given(
    pictures=st.integers(3, 6),
    depth=st.integers(1, 3),
    size=st.tuples(st.integers(3, 10), st.integers(3, 10)),
    layout=st.sampled_from(LAYOUTS),
    border=st.integers(0, 1),
    tile=st.sampled_from([2, 4]),
)
def test_it_is_the_same_sum(
    pictures: int, depth: int, size: tuple[int, int], layout: str, border: int, tile: int
) -> None:
    program = film(pictures, depth, size, layout, border)
    inputs = random_inputs(program)
    (found,), (truth,) = (
        evaluate(one, inputs) for one in (winograd(program, "y", rows="q", columns="u", tile=tile), program)
    )
    np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_picture_is_transformed_once(layout: str) -> None:
    program = film(5, 3, (8, 8), layout)
    fast = winograd(program, "y", rows="q", columns="u", tile=4)
    pictures = [axis.extent for axis in fast.stage("y_data").axes if axis.name == "p_r"]
    assert pictures == [7]  # five and a border
    assert {axis.name for axis in fast.stage("y_products").reduction} == {"c", "r"}


def test_integers_are_exact() -> None:
    program = film(4, 3, (6, 7), LAYOUTS[1], border=0, dtype="i8")
    inputs = random_inputs(program)
    (found,), (truth,) = (
        evaluate(one, inputs) for one in (winograd_integers(program, "y", rows="q", columns="u"), program)
    )
    np.testing.assert_array_equal(found, truth)


@pytest.mark.parametrize("outlier", [np.nan, np.inf, 1e30, 1e6])
@pytest.mark.parametrize("tile", [2, 4])
def test_an_outlier_reaches_no_result_that_does_not_see_it(outlier: float, tile: int) -> None:
    program = film(6, 3, (9, 9), LAYOUTS[0])
    fast = winograd(program, "y", rows="q", columns="u", tile=tile)
    x, w = random_inputs(program)
    spoiled = x.copy()
    spoiled[1, 2, 3, 4, 5] = outlier
    (before,), (found,), (truth,) = (
        evaluate(one, [data, w]) for one, data in ((fast, x), (fast, spoiled), (program, spoiled))
    )
    inside = np.zeros(truth.shape, bool)
    inside[1, :, 2:5, 3:6, 4:7] = True
    np.testing.assert_allclose(found[~inside], before[~inside], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[inside], truth[inside], rtol=1e-12, atol=1e-12)


def test_other_uses_of_the_axes_are_no_stack() -> None:
    """Pictures at steps of two, and a picture that two axes choose apart, are transformed for each of both."""
    program = parse("""\
input x: f32[3, 9, 10, 10]
constant w: f32[4, 3, 3, 3, 3]
y[p: 4, q: 8, u: 8, o: 4] = sum[c: 3, r: 3, s: 3, t: 3](x[c, p * 2 + r, q + s, u + t] * w[o, c, r, s, t])
return y""")
    fast = winograd(program, "y", rows="q", columns="u")
    assert {"p", "r"} <= {axis.name for axis in fast.stage("y_data").axes}
    inputs = random_inputs(program)
    (found,), (truth,) = (evaluate(one, inputs) for one in (fast, program))
    np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-11)


def test_kernels_of_films_are_right() -> None:
    program = body_of(ops.conv3d(1, 17, 3, 6, 5, 18, padding=1))
    fast = [sketch for sketch in derive(program) if "winograd" in sketch.text]
    assert fast
    for number, sketch in enumerate(fast[:: len(fast) // 2]):
        for values in some_configs(program, sketch, 1):
            assert_runs(program, sketch.apply(program, parse_target("host"), values), number)
