"""Terms that no point has are left out; what is left gives the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.rewritten import same_to_the_last_bit
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.trim_reductions import can_trim_reductions, is_cut, trim_reductions
from tilesmith.tensor.text.canonical import program_key
from tilesmith.tensor.text.parse import parse

FAR = """\
input x: f32[5, 16]
constant w: f32[4, 5, 3]
y[o: 4, p: 16] = sum[c: 5, r: 3]({term})
return y"""
INSIDE = "p + {d} * r - {d} >= 0 and p + {d} * r - {d} < 16"
TERM = "select(" + INSIDE + ", x[c, p + {d} * r - {d}], 0) * w[o, c, r]"


def the_same(program: Program) -> Program:
    """What is left of a program."""
    return same_to_the_last_bit(program, trim_reductions, can_trim_reductions)


def test_one_place_of_a_window_is_a_number() -> None:
    wanted = """\
input x: f32[5, 16]
constant w: f32[4, 5, 3]
k[o: 4, c: 5] = w[o, c, 1]
y[o: 4, p: 16] = sum[c: 5](x[c, p] * k[o, c])
return y"""
    trimmed = the_same(parse(FAR.format(term=TERM.format(d=16))))
    assert program_key(trimmed) == program_key(parse(wanted)), str(trimmed)
    assert [is_cut(trimmed, stage) for stage in trimmed.stages] == [True, False]


def test_a_window_without_a_middle_keeps_one_end_of_it() -> None:
    """Padded at one side alone, as causal convolutions are."""
    wanted = """\
input x: f32[5, 16]
constant w: f32[4, 5, 3]
k[o: 4, c: 5, r: 2] = w[o, c, r + 1]
y[o: 4, p: 16] = sum[c: 5, r: 2](select(p + r * 9 - 9 >= 0, x[c, p + r * 9 - 9], 0) * k[o, c, r])
return y"""
    term = "select(p + 9 * r - 18 >= 0, x[c, p + 9 * r - 18], 0) * w[o, c, r]"
    trimmed = the_same(parse(FAR.format(term=term)))
    assert program_key(trimmed) == program_key(parse(wanted)), str(trimmed)


@pytest.mark.parametrize(
    ("term", "trims"),
    [
        (TERM.format(d=15), False),  # the first place is seen by the last point
        (TERM.format(d=16).replace("0) *", "1) *"), False),  # a border that is no zero
        (TERM.format(d=16).replace("0) *", "0) +"), False),  # no product
        (TERM.format(d=16).replace("x[c, p + 16 * r - 16]", "x[c, p]"), True),
        ("select(" + INSIDE.format(d=16) + ", x[c, p + 16 * r - 16] * w[o, c, r], 0)", True),
        ("select(" + INSIDE.format(d=16) + ", x[c, p + 16 * r - 16] * w[o, c, r], 1)", False),
        ("w[o, c, r] * select(c < 3, x[c, p], 0)", True),
        ("w[o, c, r] * select(c < 3 or r < 2, x[c, p], 0)", False),
        ("w[o, c, r] * select(c < 9, x[c, p], 0)", False),
        ("w[o, c, r] * select(c < 0, x[c, p], 0)", False),  # of no terms at all
    ],
)
def test_only_terms_that_change_nothing_go(term: str, trims: bool) -> None:
    program = parse(FAR.format(term=term))
    assert can_trim_reductions(program) == trims
    the_same(program) if trims else None


@pytest.mark.parametrize("combiner", ["max", "min", "sum", "prod"])
def test_the_identity_of_a_combiner_is_no_term(combiner: str) -> None:
    other = {"max": "-inf", "min": "inf", "sum": "0", "prod": "1"}
    for name, value in other.items():
        text = f"input x: f32[9]\ny[p: 9] = {combiner}[r: 5](select(p + 5 * r - 10 >= 0, x[(p + r) % 9], {value}))\nreturn y"
        program = parse(text)
        assert can_trim_reductions(program) == (name == combiner)
        the_same(program) if name == combiner else None


def test_integers_and_what_is_cast_are_trimmed_too() -> None:
    text = FAR.format(term="i32(" + TERM.format(d=20).replace(" * w[o", ") * i32(w[o") + ")").replace("f32", "i8")
    assert "w_kept" in str(the_same(parse(text)))


def test_an_axis_of_what_another_stage_has_made_stays_whole() -> None:
    program = ops.attention(1, 5, 8, 2, causal=True)
    assert not can_trim_reductions(program) and trim_reductions(program) == program


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 5), st.integers(1, 3), st.integers(1, 9), st.integers(0, 20), st.integers(1, 2),
    st.booleans(),
)  # fmt: skip
def test_convolutions_of_any_reach_stay_the_same(
    w: int, kernel: int, stride: int, dilation: int, padding: int, groups: int, last: bool
) -> None:
    sizes = {"n": 1, "c": 2 * groups, "w": w, "o": 2 * groups, "kernel": kernel, "groups": groups}
    windows = {"stride": stride, "padding": padding, "dilation": dilation}
    if w + 2 * padding < dilation * (kernel - 1) + 1:
        return
    layout = "nwc" if last else "ncw"
    the_same(ops.build_operator("conv1d", {**sizes, **windows, "layout": layout}, constants=["W"]))
