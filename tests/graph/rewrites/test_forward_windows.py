"""Windows that go backwards go forwards, and give the same."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.graph.partition.partition import partition
from tilesmith.graph.rewrites.forward import forward_windows
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program

GRADIENT = """
input g: f32[2, 16, 24, 24]
input w: f32[16, 16, 3, 3]
x[n: 2, c: 16, p: 24, q: 24] = sum[o: 16, r: 3, s: 3](select(
  p - r + 1 >= 0 and p - r + 1 < 24 and q - s + 1 >= 0 and q - s + 1 < 24, g[n, o, p - r + 1, q - s + 1], 0) * w[o, c, r, s])
return x
"""


def program(text: str) -> Program:
    return ts.parse(text.strip())


def convolved(x: np.ndarray, window: np.ndarray) -> np.ndarray:
    """As large as `x`, beyond whose border there are zeros."""
    wide = np.pad(x, 1)
    return sum(wide[r : r + len(x), s : s + len(x)] * window[2 - r, 2 - s] for r in range(3) for s in range(3))


def test_the_gradient_of_a_convolution_is_one() -> None:
    after = forward_windows(program(GRADIENT))
    assert "g[n, o, p + r - 1, q + s - 1]" in str(after)
    assert "w[o, c, 2 - r, 2 - s]" in str(after)
    random = np.random.default_rng(0)
    g, w = (random.standard_normal(t.shape).astype(np.float32) for t in after.dynamic_inputs)
    (found,) = evaluate(after, [g, w])
    wanted = [[sum(convolved(g[n, o], w[o, c]) for o in range(16)) for c in range(16)] for n in range(2)]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_fast_convolution_is_found_for_it() -> None:
    """Of the model, whose windows go forwards, and not of the sum as it was written."""
    target = parse_target("x86:avx2")

    def fast(kernel: Program) -> bool:
        return any("winograd" in sketch.text for sketch in Task.of(kernel, target, 1).sketches)

    assert not fast(program(GRADIENT))
    assert any(map(fast, partition(program(GRADIENT)).kernels))


@pytest.mark.parametrize(
    "text",
    [
        "input x: f32[12]\ny[i: 8] = sum[r: 3](x[i + r])\nreturn y",  # goes forwards
        "input x: f32[8]\ny[i: 8] = sum[r: 8](x[7 - r] * f32(i))\nreturn y",  # slides on nothing
        "input x: f32[12]\ny[i: 8] = sum[r: 3](x[i - r + 2] * x[i + r])\nreturn y",  # both ways
        "input x: f32[12]\ny[i: 8] = sum[r: 3](x[9 - i - r])\nreturn y",  # with the axis, which goes backwards
    ],
)
def test_others_stay_as_they_are(text: str) -> None:
    assert forward_windows(program(text)) == program(text)


def test_steps_and_places_of_any_length() -> None:
    before = program("input x: f32[40]\ninput w: f32[5]\ny[i: 8] = max[r: 5](x[3 * i - 2 * r + 8] - w[r])\nreturn y")
    after = forward_windows(before)
    assert "x[i * 3 + r * 2]" in str(after)
    x, w = np.arange(40, dtype=np.float32) % 7, np.arange(5, dtype=np.float32)
    assert np.array_equal(evaluate(before, [x, w]), evaluate(after, [x, w]))
