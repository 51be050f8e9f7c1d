"""Loops over blocks that are asked whether they lie inside of borders: which are cut, and that nothing else comes out."""

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
from tilesmith.codegen.passes.peel_interiors import peel_interiors
from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512;vector=128")
HEAD = """program p
  argument x: f32[9, 48] in input
  argument y: f32[9, 48] in output
nest y:
"""
ROWS = """  for i < i64(9):
    for b < i64(12):
      let size = min(4, 46 - b * 4)
        if 3 < size and 1 <= i and i < 7 and 1 <= b * 4 - 2:
          vector j < i64(4):
            y[i, b * 4 + j] = x[i, b * 4 + j - 3]
        else:
          vector l < i64(4) valid size:
            y[i, b * 4 + l] = x[i, b * 4 + l] + 1
"""
# A copy of rows whose vectors have a loop of their own, and a tile that lives in one trip.
COPY = """  for i < i64(9):
    for b < i64(12):
      for c < i64(2):
        if 1 <= i and i < 7 and 1 <= b and b < 11:
          vector j < i64(2):
            y[i, b * 4 + c * 2 + j] = x[i, b * 4 + c * 2 + j - 3]
        else:
          vector l < i64(2):
            y[i, b * 4 + c * 2 + l] = f32(2)
"""
TILE = """  for i < i64(9):
    for b < i64(12):
      allocate t: f32[4] in register
        if 1 <= i and i < 7 and 1 <= b and b < 11:
          vector j < i64(4):
            t[j] = x[i, b * 4 + j - 3]
          vector m < i64(4):
            t[m] += x[i, b * 4 + m + 3]
        else:
          vector l < i64(4):
            t[l] = x[i, b * 4 + l]
        vector k < i64(4):
          y[i, b * 4 + k] = t[k] * 2
"""
READ_AGAIN = ROWS.replace("x[i, b * 4 + j - 3]", "y[i, b * 4 + j - 1]")
SUMS = ROWS.replace("y[i, b * 4 + j] = ", "y[i, b * 4 + j] += ")
NO_INDEX = ROWS.replace("1 <= i", "0 < x[0, 0]")
SHORT = ROWS.replace("b < i64(12)", "b < i64(3)")


def passed(body: str) -> str:
    return print_loops(peel_interiors(parse_loops(HEAD + body))).removeprefix(HEAD)


def results(loops: LoopProgram) -> np.ndarray:
    x = np.arange(9 * 48, dtype=np.float32).reshape(9, 48)
    y = np.full((9, 48), np.nan, np.float32)
    Interpreter(loops).run([x, y])
    return y


@pytest.mark.parametrize("low", [1, -99, 3, 20, 99])
@pytest.mark.parametrize("high", [46, 20, 0, 400])
@pytest.mark.parametrize("row", [1, 5, 9])
def test_a_row_of_blocks_asks_once(low: int, high: int, row: int) -> None:
    """Bounds anywhere, also where no block or every one is inside, or they exclude one another."""
    text = ROWS.replace("46 - b", f"{high} - b").replace("1 <= b", f"{low} <= b").replace("1 <= i", f"{row} <= i")
    text = text.replace("j - 3]", "j]").replace("valid size", "valid i64(4)")
    loops = parse_loops(HEAD + text)
    changed = peel_interiors(loops)
    assert "if " in print_loops(loops) and "if " not in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(loops))


@pytest.mark.parametrize("body", [COPY, TILE])
def test_what_stands_in_loops_of_its_own_or_lives_in_one_trip_is_asked_once(body: str) -> None:
    loops = parse_loops(HEAD + body)
    changed = peel_interiors(loops)
    assert "if " in print_loops(loops) and "if " not in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(loops))


@pytest.mark.parametrize("body", [READ_AGAIN, SUMS, NO_INDEX, SHORT])
def test_what_has_an_order_and_what_is_no_question_of_indices_stays(body: str) -> None:
    assert passed(body) == print_loops(parse_loops(HEAD + body)).removeprefix(HEAD)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_stay(name: str) -> None:
    random = Random(name)
    program = random_program(random, name)
    changes_no_result(peel_interiors, program, drawn(program, TARGET, random, 32), 1)


def test_sweeps_with_borders_are_cut_and_stay() -> None:
    sweep = "select(i >= 1, {0}[i - 1, j], 0) + select(i < 22, {0}[i + 1, j], 0) + select(j >= 1, {0}[i, j - 1], 0)"
    stages = "".join(f"{new}[i: 23, j: 61] = {sweep.format(old)}\n" for old, new in ("xa", "ab"))
    program = body_of(parse(f"input x: f32[23, 61]\n{stages}return b"))
    cut = 0
    for sketch in derive(program)[1:]:
        for values in some_configs(program, sketch, 3):
            cut += changes_no_result(peel_interiors, program, loop_program(program, sketch, values, TARGET), 2)
    assert cut > 3


@pytest.mark.parametrize("seed", range(12))
def test_drawn_pipelines_stay(seed: int) -> None:
    program = body_of(drawn_pipeline(seed))
    for sketch in derive(program)[1:3]:
        for values in some_configs(program, sketch, 1):
            changes_no_result(peel_interiors, program, loop_program(program, sketch, values, TARGET), seed)
