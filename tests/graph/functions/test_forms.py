"""Functions leave stages that are easy to look through: plain indices where an axis stays, quotients only where one is cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilesmith import placeholder, program
from tilesmith.graph.functions import creation, elementwise, shape, softmax
from tilesmith.tensor.dtype import f32, i64
from tilesmith.tensor.expr import Op
from tilesmith.tensor.limits import size_of
from tilesmith.tensor.printing import print_expr
from tilesmith.tensor.program import Tensor


def body(function: Callable[[Tensor], Tensor], *sizes: int) -> str:
    """The only stage of a function of x, as text."""
    (stage,) = program(function(placeholder(sizes, "f32", "x"))).stages
    return print_expr(stage.bodies[0])


@pytest.mark.parametrize(
    ("sizes", "to", "read"),
    [
        ((1, 12, 64), (1, 12, 4, 16), "x[0, i1, i2 * 16 + i3]"),
        ((1, 1, 64), (1, 1, 4, 16), "x[0, 0, i2 * 16 + i3]"),
        ((1, 2, 2, 17, 16), (1, 4, 17, 16), "x[0, i1 // 2, i1 % 2, i2, i3]"),
        ((3, 4, 5), (1, 3, 4, 5), "x[i1, i2, i3]"),
        ((2, 3, 4), (24,), "x[i0 // 12, i0 // 4 % 3, i0 % 4]"),
        ((6, 4), (4, 6), "x[(i0 * 6 + i1) // 4, (i0 * 2 + i1) % 4]"),
    ],
)
def test_reshape_reads_axes_that_stay_at_their_own_index(
    sizes: tuple[int, ...], to: tuple[int, ...], read: str
) -> None:
    assert body(lambda x: shape.reshape(x, to), *sizes) == read


def test_what_changes_nothing_makes_no_stage() -> None:
    x = placeholder((2, 3), "f32", "x")
    for made in (
        shape.reshape(x, (2, -1)), shape.permute(x, (0, 1)), shape.expand(x, (-1, 3)), shape.concat([x], 1),
        shape.slice_axis(x, 0, 0, 2), shape.pad(x, (0, 0), (0, 0)), shape.tile(x, (1, 1)), elementwise.cast(x, f32),
    ):  # fmt: skip
        assert made is x


def test_a_range_is_its_axis() -> None:
    (stage,) = program(creation.arange(5, 0, 1, i64)).stages
    assert print_expr(stage.bodies[0]) == "i"


def test_padding_is_a_guarded_read() -> None:
    assert body(lambda x: shape.pad(x, (0, 1), (0, 0)), 2, 3) == "select(i1 - 1 >= 0, x[i0, i1 - 1], 0)"


def test_many_parts_are_told_apart_by_few_comparisons() -> None:
    parts = [placeholder((2, number + 1), "f32", f"x{number}") for number in range(64)]
    (stage,) = program(shape.concat(parts, 1)).stages
    assert size_of(stage.bodies[0], lambda e: e.args[1:] if isinstance(e, Op) and e.name == "select" else ())[1] == 7
    assert print_expr(stage.bodies[0]).startswith("select(i1 < 528, select(")


def test_names_are_told_apart() -> None:
    x = placeholder((2, 3), "f32", "x")
    made = program(softmax.softmax(softmax.softmax(x, 0), 1))
    assert len({tensor for stage in made.stages for tensor in stage.tensors}) == 8


def test_what_jumps_at_whole_quotients_is_computed_in_float64() -> None:
    for function in (elementwise.remainder, elementwise.fmod, lambda x, y: elementwise.divide(x, y, "floor")):
        assert "f64(x[i0]) / " in body(lambda x, function=function: function(x, 0.1), 3)
    assert body(lambda x: elementwise.divide(x, 3), 3) == "x[i0] / 3"
