"""Axes of a reduction of which each point sees one place are no loops; what is left gives the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.rewritten import same_to_the_last_bit
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.pin_reductions import can_pin_reductions, pin_reductions
from tilesmith.tensor.text.canonical import program_key
from tilesmith.tensor.text.parse import parse

POINT = """\
input x: f32[5, 3]
input w: f32[5, 8, {places}]
y[o: 8, p: 4] = sum[c: 5, r: {places}](select({condition}, {value}, 0) * w[c, o, r])
return y"""


def point(condition: str, value: str = "x[c, 0]", places: int = 4) -> Program:
    """A sum of which few terms count."""
    return parse(POINT.format(condition=condition, value=value, places=places))


def the_same(program: Program) -> Program:
    """What is left of a program."""
    return same_to_the_last_bit(program, pin_reductions, can_pin_reductions)


def test_a_point_under_a_window_is_a_product() -> None:
    wanted = """\
input x: f32[5, 3]
input w: f32[5, 8, 4]
y[o: 8, p: 4] = sum[c: 5](x[c, 0] * w[c, o, p])
return y"""
    pinned = the_same(point("p - r >= 0 and p - r < 1", "x[c, p - r]"))
    assert program_key(pinned) == program_key(parse(wanted)), str(pinned)


def test_a_sum_of_one_term_is_no_sum() -> None:
    program = parse("input x: f32[9]\ny[p: 7] = sum[r: 9](select(r <= p + 2 and r >= p + 2, x[r], 0))\nreturn y")
    (stage,) = the_same(program).stages
    assert stage.combiner is None and not stage.reduction


@pytest.mark.parametrize(
    ("condition", "pins"),
    [
        ("p - r >= 0 and p - r <= 0", True),
        ("p >= r and r >= p", True),
        ("p >= r and r >= p and c < 3", True),
        ("r <= 3 - p and r + p >= 3", True),
        ("p - r >= 0 and p - r < 2", False),  # two places
        ("p - r >= 0", False),
        ("p + 1 - r >= 0 and p + 1 - r < 1", False),  # the last point sees none
        ("p - 1 - r >= 0 and p - 1 - r < 1", False),  # the first
        ("2 * p - 2 * r >= 0 and 2 * p - 2 * r < 1", False),
        ("p >= r or r >= p", False),
    ],
)
def test_only_axes_with_one_place_for_each_point(condition: str, pins: bool) -> None:
    program = point(condition)
    assert can_pin_reductions(program) == pins
    assert the_same(program).stages[0].reduction[1:] == (() if pins else program.stages[0].reduction[1:])


def test_one_more_place_than_points_is_enough() -> None:
    assert can_pin_reductions(point("p + 1 - r >= 0 and p + 1 - r < 1", places=5))


def test_axes_that_are_tied_to_each_other() -> None:
    program = parse(
        """
        input x: f32[6, 6]
        y[p: 6] = sum[r: 6, s: 6](select(r - s >= 0 and r - s < 1 and s - p >= 0 and s - p < 1, x[r, s], 0) * x[p, r])
        return y
        """
    )
    (stage,) = the_same(program).stages
    assert not stage.reduction


@pytest.mark.parametrize(("combiner", "none"), [("max", "-inf"), ("min", "inf"), ("sum", "0"), ("prod", "1")])
def test_the_identity_of_a_combiner_is_no_term(combiner: str, none: str) -> None:
    for other in ("-inf", "inf", "0", "1"):
        text = (
            f"input x: f32[9]\ny[p: 5] = {combiner}[r: 9](select(r >= p + 2 and r <= p + 2, x[r], {other}))\nreturn y"
        )
        assert can_pin_reductions(parse(text)) == (other == none)
        the_same(parse(text))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 4), st.integers(1, 2), st.integers(0, 2))
def test_transposed_convolutions_stay_the_same(h: int, w: int, kernel: int, stride: int, padding: int) -> None:
    if min((h - 1) * stride, (w - 1) * stride) + kernel - 2 * padding < 1:
        return
    sizes = {"n": 2, "c": 3, "h": h, "w": w, "o": 4, "kernel": kernel, "stride": stride, "padding": padding}
    program = ops.build_operator("conv_transpose2d", sizes)
    if h == w == stride == 1 and kernel > 1:
        assert can_pin_reductions(program)
    the_same(program)
