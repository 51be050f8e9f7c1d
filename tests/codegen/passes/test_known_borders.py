"""Vectors at borders that are written out, so that their masks are known: which are, and that nothing else comes out."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.lowering.candidates import drawn
from helpers.lowering.derived import body_of, some_configs
from helpers.lowering.interpreter import Interpreter
from helpers.lowering.programs import MAKERS, random_program
from helpers.lowering.truth import changes_no_result
from helpers.pipelines import drawn_pipeline
from tilesmith.codegen.ir.loop_ir import LoopProgram
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.passes.known_borders import known_borders
from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops

TARGET = parse_target("x86:avx2")
HEAD = """program p
  argument x: f32[9, 48] in input
  argument y: f32[9, 48] in output
nest y:
"""
ROWS = """  for i < i64(9):
    for b < i64(12):
      let size = min(4, 46 - b * 4)
        if 3 < size and 1 <= i and i < 7 and 3 <= b * 4 and b * 4 < 40:
          vector j < i64(4):
            y[i, b * 4 + j] = x[i, b * 4 + j - 3] + x[i, b * 4 + j + 4]
        else:
          vector l < i64(4) valid size:
            y[i, b * 4 + l] = select(3 <= b * 4 + l, x[i, b * 4 + l - 3], 0) + select(b * 4 + l < 44, x[i, b * 4 + l + 4], 0)
"""
FEW = ROWS.replace("b < i64(12)", "b < i64(3)")
ALWAYS = ROWS.replace(" and 1 <= i and i < 7", "")  # rows are no question
LOOP_INSIDE = ROWS.replace("        if 3", "        for k < i64(2):\n         if 3").replace(
    "        else", "         else"
)
SCALARS = ROWS.replace("select(3 <= b * 4 + l, ", "select(3 <= b * 4 + i, ").replace(
    "select(b * 4 + l < 44, x[i, b * 4 + l + 4], 0)", "1"
)
WIDE = ROWS.replace("3 <= b * 4 and", "20 <= b * 4 and")  # five trips are at one border


def results(loops: LoopProgram) -> np.ndarray:
    x = np.arange(9 * 48, dtype=np.float32).reshape(9, 48)
    y = np.full((9, 48), np.nan, np.float32)
    Interpreter(loops).run([x, y])
    return y


@pytest.mark.parametrize(("body", "middle"), [(ROWS, "if 1 <= i and i < 7:"), (ALWAYS, "")])
def test_trips_at_borders_are_written_out(body: str, middle: str) -> None:
    """The first and the last two trips have numbers, those between ask at most where the row is."""
    loops = parse_loops(HEAD + body)
    changed = print_loops(known_borders(loops))
    assert "b_easy < i64(9)" in changed and "let b = b_easy + 1" in changed
    assert all(f"let b = i64({trip})\n" in changed for trip in (0, 10, 11)) and "let b = i64(1)\n" not in changed
    inside = changed[changed.index("let b = b_easy") : changed.index("let b = i64(10)")]
    assert "let size = i64(4)\n" in inside and inside.count("if ") == (1 if middle else 0) and middle in inside
    np.testing.assert_array_equal(results(known_borders(loops)), results(loops))


def test_a_loop_of_few_trips_is_written_out() -> None:
    loops = parse_loops(HEAD + FEW)
    changed = known_borders(loops)
    assert "for b < i64(3) unroll 3:" in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(loops))


@pytest.mark.parametrize("body", [LOOP_INSIDE, SCALARS, WIDE, ROWS.replace("b < i64(12)", "b < i64(i + 3)")])
def test_what_has_loops_or_no_masks_or_much_border_stays(body: str) -> None:
    body = body.replace("i64(i + 3)", "i + 3")
    loops = parse_loops(HEAD + body)
    assert print_loops(known_borders(loops)) == print_loops(loops)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_stay(name: str) -> None:
    random = Random(name)
    program = random_program(random, name)
    changes_no_result(known_borders, program, drawn(program, TARGET, random, 32), 1)


def test_windows_with_borders_are_cut_and_stay() -> None:
    program = body_of(ops.depthwise_conv2d(1, 2, 9, 61, kernel=3, padding=1))
    cut = 0
    for sketch in derive(program)[1:]:
        for values in some_configs(program, sketch, 3):
            cut += changes_no_result(known_borders, program, loop_program(program, sketch, values, TARGET), 2)
    assert cut > 3


@pytest.mark.parametrize("seed", range(8))
def test_drawn_pipelines_stay(seed: int) -> None:
    program = body_of(drawn_pipeline(seed))
    for sketch in derive(program)[1:3]:
        for values in some_configs(program, sketch, 1):
            changes_no_result(known_borders, program, loop_program(program, sketch, values, TARGET), seed)
