"""Tiles inside of all borders ask no guard; tiles at a border do; and both are right."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.interpreter import Interpreter
from helpers.lowering.truth import exact_inputs
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.lower.interior import interior_of
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse


def program(text: str) -> Program:
    return body_of(parse(text))


GUARDED = program("""
    input x: f32[13, 70]
    y[i: 13, j: 70] = select(i - 1 >= 0 and j + 2 < 70, x[i - 1, j + 2], 0) + x[min(i + 1, 12), max(j - 3, 0)]
    return y
    """)
WINDOW = program("""
    input x: f32[13, 70]
    y[i: 13, j: 70] = sum[r: 3](select(i + r - 1 >= 0 and i + r - 1 < 13, x[i + r - 1, j], 0))
    return y
    """)

FINER = program("""
    input x: f32[7, 35]
    y[i: 13, j: 70] = x[i // 2, j // 2] + x[min((i + 1) // 2, 6), min((j + 1) // 2, 34)] + x[max((i - 1) // 2, 0), j // 2]
    return y
    """)


def tiled(s: Schedule) -> None:
    """Blocks of rows and vectors, written out."""
    stage = s.stage(s.program.stages[-1].name)
    i, j = stage.axes
    i0, i1 = s.split(i, s.factor("rows", at_most=4))
    j0, j1 = s.split(j, 8)
    s.reorder(i0, j0, *stage.reduction, i1, j1)
    s.unroll(i1)
    s.vectorize(j1)


def text_of(program: Program, rows: int = 3, target: str = "x86:avx512") -> str:
    (sketch,) = trace(tiled, program)
    return print_loops(loop_ir(sketch.apply(program, parse_target(target), {"rows": rows}), parse_target(target)))


def test_guards_and_clamps_are_bounds() -> None:
    interior = interior_of(GUARDED.stages[0], frozenset())
    assert len(interior.bounds) == 4
    assert (
        "select" not in str(interior.bodies) and "min" not in str(interior.bodies) and "max" not in str(interior.bodies)
    )


def test_clamps_of_halves_are_bounds() -> None:
    """A finer level of a pyramid between the points of a coarser one."""
    interior = interior_of(FINER.stages[0], frozenset())
    assert len(interior.bounds) == 2  # the last row lies between two
    assert "min" not in str(interior.bodies) and "max" not in str(interior.bodies)


def test_axes_that_a_box_leaves_are_asked_for() -> None:
    (stage,) = program("input x: f32[9]\ny[i: 9] = x[i] * 2\nreturn y").stages
    assert interior_of(stage, frozenset()).bounds == ()
    assert len(interior_of(stage, frozenset({"a0"})).bounds) == 2


def test_values_that_are_chosen_are_no_guards() -> None:
    (stage,) = program("input x: f32[9]\ny[i: 9] = select(i < 4, x[i], x[i] * 2)\nreturn y").stages
    assert interior_of(stage, frozenset()).bounds == ()


def test_a_question_about_one_point_of_a_tile_that_often_fails_stays() -> None:
    """The last of four colours is one for a quarter of all tiles, the first row of thirteen for a few."""
    (stage,) = program("""
        input x: f32[4, 13, 70]
        y[c: 4, i: 13, j: 70] = select(c < 3, x[c, i, max(j - 1, 0)], 1) + select(i - 1 >= 0, x[c, i - 1, j], 0)
        return y
        """).stages
    assert len(interior_of(stage, frozenset()).bounds) == 3
    assert len(interior_of(stage, frozenset(), frozenset({"a0", "a1"})).bounds) == 2
    assert "max" not in str(interior_of(stage, frozenset(), frozenset({"a0", "a1"})).bodies)
    assert len(interior_of(stage, frozenset(), frozenset({"a1"})).bounds) == 3


@pytest.mark.parametrize(
    ("condition", "stays"), [("c < 3", True), ("c >= 1", True), ("2 * c >= 1", True), ("c < 8", False)]
)
def test_points_at_which_a_question_fails_are_counted(condition: str, stays: bool) -> None:
    extent = 9 if condition == "c < 8" else 4
    (stage,) = program(f"""
        input x: f32[{extent}, 70]
        y[c: {extent}, j: 70] = select({condition}, x[c, j], 1)
        return y
        """).stages
    assert (interior_of(stage, frozenset(), frozenset({"a0"})).bounds == ()) == stays


@pytest.mark.parametrize("given", [GUARDED, WINDOW], ids=["points", "window"])
def test_whole_tiles_have_a_body_without_questions(given: Program) -> None:
    inner, edge = text_of(given).split("else:")
    asked = inner[inner.index("if ") :].split("\n", 1)
    assert "<" in asked[0]
    assert "select" not in asked[1] and "max(" not in asked[1]
    assert "select" in edge


@pytest.mark.parametrize("given", [GUARDED, WINDOW, FINER], ids=["points", "window", "finer"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_both_bodies_are_right(given: Program, rows: int) -> None:
    (sketch,) = trace(tiled, given)
    assert_runs(given, sketch.apply(given, HOST, {"rows": rows}), rows)
    assert some_configs(given, sketch, 1)


def test_a_tile_at_the_border_that_is_taken_for_one_inside_is_found() -> None:
    text = text_of(GUARDED)
    condition = next(line for line in text.splitlines() if line.lstrip().startswith("if "))
    inputs = exact_inputs(GUARDED, 0)
    output = np.full((13, 70), np.nan, np.float32)
    Interpreter(parse_loops(text)).run([*inputs, output])
    assert np.array_equal(output, evaluate(GUARDED, inputs)[0])
    wrong = Interpreter(parse_loops(text.replace(condition, condition.replace("1 - ", "0 - ", 1))))
    with pytest.raises(AssertionError, match="Buffer"):  # it reads beyond an end of x
        wrong.run([*inputs, output])
