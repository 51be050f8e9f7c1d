"""Extrema of many elements that read extrema of two, against NumPy over the elements themselves."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.registry import shared_extrema
from tilesmith.tensor.rewrites.shared_extrema import LEAST_SAVED, can_share_extrema, is_of_pairs
from tilesmith.tensor.text.parse import parse

Place = tuple[int, int]
DISC = tuple((r, s) for r in range(7) for s in range(7) if (r - 3) ** 2 + (s - 3) ** 2 <= 10)
FALLING = tuple((r + n, 9 - r + n) for n in range(0, 10, 3) for r in range(6))  # neighbours lie below and to the left
SHAPE = (20, 26)


def extremum(places: tuple[Place, ...], name: str = "max", dtype: str = "f32", around: str = "{}") -> Program:
    """The extremum of elements at some places from each point on, nested at the left."""
    terms = [f"x[i + {r}, j + {s}]" for r, s in places]
    nested = terms[0]
    for term in terms[1:]:
        nested = f"{name}({nested}, {term})"
    rows, columns = (1 + max(place[d] for place in places) for d in (0, 1))
    axes = f"i: {SHAPE[0] - rows + 1}, j: {SHAPE[1] - columns + 1}"
    return parse(f"input x: {dtype}[{SHAPE[0]}, {SHAPE[1]}]\ny[{axes}] = {around.format(nested)}\nreturn y")


def wanted(x: np.ndarray, places: tuple[Place, ...], name: str) -> np.ndarray:
    rows, columns = (1 + max(place[d] for place in places) for d in (0, 1))
    high, wide = x.shape[0] - rows + 1, x.shape[1] - columns + 1
    stack = np.stack([x[r : r + high, s : s + wide] for r, s in places])
    return np.asarray(stack.max(0) if name == "max" else stack.min(0))


def reads_of_last(program: Program) -> int:
    return len(program.stages[-1].reads())


@pytest.mark.parametrize("places", [DISC, FALLING, tuple(reversed(DISC))])
@pytest.mark.parametrize(("name", "dtype"), [("max", "f32"), ("min", "f64"), ("max", "i32")])
def test_pairs_give_the_same_extrema(places: tuple[Place, ...], name: str, dtype: str) -> None:
    program = extremum(places, name, dtype)
    shared = shared_extrema(program, "y")
    assert parse(str(shared)) == shared
    assert [is_of_pairs(stage) for stage in shared.stages] == [True, False]
    assert reads_of_last(shared) <= len(places) - LEAST_SAVED
    x = np.random.default_rng(1).integers(-1000, 1000, SHAPE).astype(program.inputs[0].tensor.dtype.numpy)
    (found,) = evaluate(shared, [x])
    np.testing.assert_array_equal(found, wanted(x, places, name))


@pytest.mark.parametrize("name", ["max", "min"])
def test_what_is_not_finite_stays(name: str) -> None:
    x = np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)
    x[3, 4], x[12, 20], x[17, 2], x[9, 11] = np.nan, np.inf, -np.inf, np.nan
    (found,) = evaluate(shared_extrema(extremum(DISC, name), "y"), [x])
    assert np.isnan(found).any() and not np.isnan(found).all()
    np.testing.assert_array_equal(found, wanted(x, DISC, name))


def test_an_extremum_inside_of_an_expression() -> None:
    program = extremum(DISC, around="x[i, j] * 2 - {}")
    x = np.random.default_rng(3).integers(-9, 9, SHAPE).astype(np.float32)
    (found,) = evaluate(shared_extrema(program, "y"), [x])
    most = wanted(x, DISC, "max")
    np.testing.assert_array_equal(found, x[: most.shape[0], : most.shape[1]] * 2 - most)


def test_pairs_of_pairs() -> None:
    """Four rows of 16 neighbours are 32 pairs, and these 16 pairs of pairs."""
    places = tuple((3 * r * r, s) for r in range(3) for s in range(16))
    once = shared_extrema(extremum(places), "y")
    twice = shared_extrema(once, "y")
    assert (reads_of_last(once), reads_of_last(twice)) == (24, 12)
    x = np.random.default_rng(4).standard_normal(SHAPE).astype(np.float32)
    np.testing.assert_array_equal(evaluate(twice, [x])[0], wanted(x, places, "max"))


@pytest.mark.parametrize("places", [DISC[:9], tuple((n * n, 0) for n in range(4)), ((0, 0), (0, 1))])
def test_few_pairs_are_refused(places: tuple[Place, ...]) -> None:
    program = extremum(places)
    assert not can_share_extrema(program.stages[-1])
    with pytest.raises(ProgramError, match="no extremum of many pairs"):
        shared_extrema(program, "y")


def test_sums_are_no_extrema() -> None:
    terms = " + ".join(f"x[i, j + {n}]" for n in range(20))
    program = parse(
        f"input x: f32[4, 40]\ny[i: 4, j: 21] = {terms}\nz[i: 4, j: 20] = max(y[i, j], y[i, j + 1])\nreturn z"
    )
    assert not any(map(can_share_extrema, program.stages))
    assert [is_of_pairs(stage) for stage in program.stages] == [False, True]
