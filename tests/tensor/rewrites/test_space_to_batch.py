"""space_to_batch: the same sums over images of every d-th pixel; and which sums have no such windows."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.fast_windows.space_to_batch import space_to_batch
from tilesmith.tensor.text.parse import parse


def dilated(random: Random) -> Program:
    """A window with gaps over two images, whose border of zeros is one of their own or a guard, in either layout."""
    gap, border = random.randint(2, 5), random.randint(0, 4)
    (r, s), (p, q) = ((random.randint(least, least + 3) for _ in range(2)) for least in (2, 3))
    high, wide = (points + gap * (window - 1) - 2 * border for points, window in ((p, r), (q, s)))
    if min(high, wide) < 1:
        border, high, wide = 0, high + 2 * border, wide + 2 * border
    i, j = f"p + {gap} * r - {border}", f"q + {gap} * s - {border}"
    first = random.random() < 0.5
    place, shape = (
        (f"n, c, {i}, {j}", f"2, 3, {high}, {wide}") if first else (f"n, {i}, {j}, c", f"2, {high}, {wide}, 3")
    )
    read = f"X[{place}]"
    if border:
        read = f"select({i} >= 0 and {i} < {high} and {j} >= 0 and {j} < {wide}, {read}, 0)"
    return parse(f"""
input X: f32[{shape}]
input W: f32[4, 3, {r}, {s}]
Y[n: 2, o: 4, p: {p}, q: {q}] = sum[c: 3, r: {r}, s: {s}]({read} * W[o, c, r, s])
return Y
""")  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_results_stay_bit_for_bit(seed: int) -> None:
    program = dilated(Random(seed))
    changed = space_to_batch(program, "Y", "p", "q")
    assert [stage.name for stage in changed.stages] == ["Y_images", "Y_batch", "Y"]
    inputs = random_inputs(program, seed)
    for before, after in zip(evaluate(program, inputs), evaluate(changed, inputs), strict=True):
        assert np.array_equal(before, after)


PLAIN = "X[n, p + 2 * r, q + 2 * s, c] * W[r, s, c, o]"


@pytest.mark.parametrize(
    "term",
    [
        "X[n, p + r, q + s, c] * W[r, s, c, o]",
        "X[n, p + 2 * r, q + 3 * s, c] * W[r, s, c, o]",
        "X[n, 2 * p + 2 * r, 2 * q + 2 * s, c] * W[r, s, c, o]",
        "X[n, p + 2 * r, q + 2 * s + p, c] * W[r, s, c, o]",
        "X[n, p + 2 * r, q + 2 * s, c] * W[r, s, c, p]",
        "X[n, p + 2 * r, q + 2 * s, c] * W[0, 0, c, o]",
    ],
)
def test_others_are_refused(term: str) -> None:
    text = f"""
input X: f32[9, 12, 12, 9]
input W: f32[9, 9, 9, 9]
Y[n: 2, p: 3, q: 3, o: 4] = sum[c: 3, r: 3, s: 3]({term})
return Y
"""
    assert space_to_batch(parse(text.replace(term, PLAIN)), "Y", "p", "q")
    with pytest.raises(ProgramError, match="no window with gaps"):
        space_to_batch(parse(text), "Y", "p", "q")
