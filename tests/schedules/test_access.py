"""How the reads of a stage move with its axes."""

from __future__ import annotations

import pytest

from tilesmith.schedules.access import contiguous_axis, element_stride, inside_panels, is_anchor, visits
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


@pytest.mark.parametrize("order", ["q: 30, c: 8", "c: 8, q: 30"])
def test_lines_that_data_choose_are_read_along(order: str) -> None:
    """As samples of an image, of many channels at places of which each query has four: along places each element would be
    looked for by itself, however many more accesses lie side by side there."""
    program = parse(f"""input x: f32[20, 8]
input at: i64[30, 4]
input w: f32[30, 4]
y[{order}] = sum[k: 4](x[min(max(at[q, k], 0), 19), c] * w[q, k])
return y""")
    assert contiguous_axis(program, program.stages[0]) == "c"


@pytest.mark.parametrize(
    ("indices", "points", "stride"),
    [("j // 16, k, j % 16", 16, 1), ("j // 16, k, j % 16", 8, 1), ("k, j // 4, j", 16, None)],
)
def test_inside_of_panels_reads_move_as_their_axis_does(indices: str, points: int, stride: int | None) -> None:
    shape = "4, 5, 16" if indices.endswith("16") else "5, 16, 64"
    program = parse(f"input x: f32[{shape}]\ny[k: 5, j: 64] = x[{indices}]\nreturn y")
    (read,) = program.stages[0].reads()
    assert element_stride(program, read, "j") is None
    assert element_stride(program, inside_panels(read, "j", points), "j") == stride
    assert element_stride(program, inside_panels(read, "k", points), "j") is None


@pytest.mark.parametrize(
    ("data", "anchor"),
    [
        ("x[k, p]", True),
        ("x[o // 4 * 3 + k, p]", True),  # of one group of four
        ("x[o + k, p]", False),
        ("x[(o + k) // 4, p]", False),  # a window that goes on in steps
        ("x[o // 1 + k, p]", False),
        ("x[o // 4 + o % 4 + k, p]", False),
    ],
)
def test_results_of_a_group_use_its_data_again(data: str, anchor: bool) -> None:
    program = parse(f"input x: f32[12, 9]\ninput w: f32[8, 3]\ny[o: 8, p: 9] = sum[k: 3]({data} * w[o, k])\nreturn y")
    assert is_anchor(program.stages[0]) == anchor


@pytest.mark.parametrize(
    ("value", "points"),
    [
        ("x[i, min(j, 2)]", 28),
        ("select(j < 3, x[i, j], 0)", 12),
        ("select(j < 3 and i < 3, x[j, i], 0)", 12),
        ("select(j >= 4, x[i, j - 4], 0)", 12),
        ("x[i, j // 3]", 28),
        ("x[i, 0]", 28),
    ],
)
def test_what_is_put_together_visits_each_element_once(value: str, points: int) -> None:
    """However many points there are beside the part, of which other parts are read."""
    stage = parse(f"input x: f32[4, 3]\ny[i: 4, j: 7] = {value}\nreturn y").stages[0]
    assert [visits(read, stage, 12) for read in stage.reads()] == [points]
