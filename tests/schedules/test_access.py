"""How the reads of a stage move with its axes."""

from __future__ import annotations

import pytest

from tilesmith.schedules.access import contiguous_axis
from tilesmith.tensor.text.parse import parse


@pytest.mark.parametrize(
    ("body", "along"),
    [
        ("x[i, k]", "k"),
        ("x[i, 2 * k] * x[i, 2 * k + 1]", "k"),
        ("x[i, 2 * k + 7] * x[i, 2 * k + 2]", "k"),
        ("x[i, 3 * k] * x[i, 3 * k + 1] * x[i, 3 * k + 2]", "k"),
        ("x[i, 2 * k]", "i"),
        ("x[i, 2 * k] * x[i, 2 * k + 2]", "i"),
        ("x[i, 2 * k] * x[i + 1, 2 * k + 1]", "i"),
        ("x[i, 3 * k] * x[i, 3 * k + 1]", "i"),
    ],
)
def test_reads_that_lie_side_by_side_are_contiguous_together(body: str, along: str) -> None:
    program = parse(f"input x: f32[9, 64]\ny[i: 8] = sum[k: 16]({body})\nreturn y")
    assert contiguous_axis(program, program.stages[0]) == along
