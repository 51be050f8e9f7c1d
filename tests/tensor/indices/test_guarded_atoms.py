"""Guards of several indices that are no axes hold for their sum."""

from __future__ import annotations

import pytest

from tilesmith.common.errors import ProgramError
from tilesmith.tensor.text.parse import parse

PROGRAM = """
    input x: f32[8]
    input n: i64[5]
    y[i: 5, j: 5] = select({0} >= 1 and {0} < {2} and {1} >= 1 and {1} < 5, x[({0} - 1) * 4 + ({1} - 1)], 0)
    return y
"""
CLAMPED = ("min(max(n[i], 0), 3)", "min(max(n[j], 0), 5)")


def test_guards_of_two_clamped_indices_hold_for_their_sum() -> None:
    assert parse(PROGRAM.format(*CLAMPED, 3)).stage("y").axes[0].extent == 5


def test_a_guard_that_is_too_wide_is_refused() -> None:
    with pytest.raises(ProgramError, match="out of bounds"):
        parse(PROGRAM.format(*CLAMPED, 4))


def test_guards_of_two_sums_of_axes_hold_for_their_sum() -> None:
    program = parse("""
        input x: f32[8]
        y[i: 2, j: 2, k: 2, m: 3] = select(i + 2 * k >= 1 and i + 2 * k < 3 and j + 2 * m >= 1 and j + 2 * m < 5,
            x[4 * (i + 2 * k) + j + 2 * m - 5], 0)
        return y
        """)
    assert len(program.stages) == 1
