"""window_rows: the same sums, in rows of one product; and which reductions are none such."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.window_rows import window_rows
from tilesmith.tensor.text.parse import parse


def windows(random: Random) -> Program:
    """Windows over an image, with a step between their points, some images, and room that nobody reads."""
    (p, q), (r, s) = ((random.randint(1, most) for _ in range(2)) for most in (9, 4))
    steps = random.randint(1, 3), random.randint(1, 3)
    first = random.randint(0, 2), random.randint(0, 2)
    high, wide = (
        first[n] + points - 1 + steps[n] * (window - 1) + 1 + random.randint(0, 2)
        for n, (points, window) in enumerate(((p, r), (q, s)))
    )
    combiner = random.choice(("sum", "max"))
    place = f"n, p + {steps[0]} * r + {first[0]}, q + {steps[1]} * s + {first[1]}, c"
    return parse(f"""
input X: f32[2, {high}, {wide}, 3]
input W: f32[{r}, {s}, 3, 4]
Y[n: 2, p: {p}, q: {q}, o: 4] = {combiner}[c: 3, r: {r}, s: {s}](X[{place}] * W[r, s, c, o])
return Y
""")  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_results_stay_bit_for_bit(seed: int) -> None:
    program = windows(Random(seed))
    changed = window_rows(program, "Y", "X", "p", "q")
    assert [stage.name for stage in changed.stages] == ["X_rows", "Y_wide", "Y"]
    wide, points = changed.stage("Y_wide"), program.stage("Y")
    assert len(wide.axes) == len(points.axes) - 1 and changed.stage("Y").combiner is None
    inputs = random_inputs(program, seed)
    for before, after in zip(evaluate(program, inputs), evaluate(changed, inputs), strict=True):
        assert np.array_equal(before, after)


PLAIN = "X[n, p + r, q + s, c] * W[r, s, c, o]"


@pytest.mark.parametrize(
    ("term", "message"),
    [
        ("X[n, 2 * p + r, q + s, c] * W[r, s, c, o]", "does not slide with p"),
        ("X[n, p + r, q + p, c] * W[r, s, c, o]", "does not slide with p"),
        ("X[n, p + o, q + s, c] * W[r, s, c, o]", "does not slide with p"),
        ("X[n, p + r, q + s, c] * W[r, q, c, o]", "more moves with p or q"),
        ("select(q + s < 4, X[n, p + r, q + s, c], 0) * W[r, s, c, o]", "more moves with p or q"),
        ("X[p, n, q + s, c] * W[r, s, c, o]", "no two dimensions of 'X' that are next to each other"),
    ],
)
def test_others_are_refused(term: str, message: str) -> None:
    text = f"""
input X: f32[9, 9, 9, 9]
input W: f32[9, 9, 9, 9]
Y[n: 2, p: 3, q: 3, o: 4] = sum[c: 3, r: 3, s: 3]({term})
return Y
"""
    assert window_rows(parse(text.replace(term, PLAIN)), "Y", "X", "p", "q")
    with pytest.raises(ProgramError, match=message):
        window_rows(parse(text), "Y", "X", "p", "q")


def test_axes_that_are_no_neighbours_are_refused() -> None:
    text = "input X: f32[9, 9]\nY[p: 3, o: 4, q: 3] = sum[r: 3](X[p + r, q])\nreturn Y"
    with pytest.raises(ProgramError, match="no neighbours"):
        window_rows(parse(text), "Y", "X", "p", "q")
