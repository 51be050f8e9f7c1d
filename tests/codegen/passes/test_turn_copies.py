"""Copies by squares: which loops are written so, that results stay, and that rows of products are packed so."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.lowering.candidates import drawn
from helpers.lowering.programs import MAKERS, random_program
from helpers.lowering.truth import changes_no_result
from helpers.pipeline.candidates import random_config
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.passes.turn_copies import turn_copies
from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

TARGETS = [parse_target("x86:avx2"), parse_target("x86:avx512"), parse_target("aarch64:neon")]
COUNT = 32
HEAD = """program p
  argument x: f32[12, 37] in input
  argument y: f32[2, 37, 6] in output
nest y:
"""
ROWS = """  for b < i64(2):
    for k < i64(37):
      unroll r < i64(6):
        y[b, k, r] = x[b * 6 + r, k]
"""
RAGGED = """  for b < i64(2):
    let size = min(6, 11 - b * 6)
      for k < i64(37):
        if 5 < size:
          unroll r < i64(6):
            y[b, k, r] = x[b * 6 + r, k]
        else:
          unroll r < i64(6):
            y[b, k, r] = select(r < size, x[b * 6 + r, k], 0)
"""
MASKED = """  for b < i64(2):
    let size = min(6, 11 - b * 6)
      for k < i64(37):
        unroll r < i64(6) valid size:
          y[b, k, r] = x[b * 6 + r, k]
"""
CHOSEN = """  for b < i64(2):
    let size = min(6, 11 - b * 6)
      for k < i64(37):
        unroll r < i64(6):
          y[b, k, r] = select(r < size, x[b * 6 + r, k], 0)
"""
FEW = """  for k < i64(37):
    unroll r < i64(3):
      y[0, k, r] = x[r, k]
"""
ALONG = """  for k < i64(6):
    unroll r < i64(6):
      y[0, k, r] = x[k, r]
"""
CHANGED = """  for k < i64(37):
    unroll r < i64(6):
      y[0, k, r] = x[r, k] + 1
"""
MEANDERING = """  for k < i64(37):
    unroll r < i64(6):
      y[0, k, r] = select(k < r * 6, x[r, k], 0)
"""


def passed(body: str) -> str:
    return print_loops(turn_copies(parse_loops(HEAD + body))).removeprefix(HEAD)


def test_rows_that_are_no_multiple_of_a_square_have_two_that_overlap_and_the_rest_stays() -> None:
    text = passed(ROWS)
    assert "for k_square < i64(9)" in text and "allocate y_rows: f32[6, 4] in register" in text
    assert "y[b, k_square * 4 + k_trip, r_lane] = y_rows[r_lane, k_trip]" in text
    assert "y[b, k_square * 4 + k_trip, r_lane + 2] = y_rows[r_lane + 2, k_trip]" in text
    assert "for k < i64(1)" in text and "y[b, k + 36, r] = x[b * 6 + r, k + 36]" in text


@pytest.mark.parametrize("body", [RAGGED, MASKED, CHOSEN])
def test_only_where_all_rows_are_there(body: str) -> None:
    whole, rest = passed(body).split("else:", 1)
    assert "vector" in whole and ("if 5 < size" in whole or "if size" in whole or "if i64(5) < size" in whole)
    assert "vector" not in rest, "single elements, as they were"


@pytest.mark.parametrize("body", [FEW, ALONG, CHANGED, MEANDERING])
def test_other_loops_stay(body: str) -> None:
    assert passed(body) == print_loops(parse_loops(HEAD + body)).removeprefix(HEAD)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_stay(name: str) -> None:
    random = Random(name)
    program = random_program(random, name)
    for target in TARGETS:
        changes_no_result(turn_copies, program, drawn(program, target, random, COUNT // 2), 1)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_packed_rows_of_products_go_by_squares_and_results_stay(dtype: str) -> None:
    text = f"input a: {dtype}[11, 13]\ninput b: {dtype}[13, 16]\nc[i: 11, j: 16] = sum[k: 13](a[i, k] * b[k, j])\nreturn c\n"
    task, changed = Task.of(parse(text), TARGETS[0], 1), 0
    packing = [sketch for sketch in task.sketches if "pack rows=true" in sketch.title]
    assert packing
    for seed in range(2):
        for sketch in packing:
            values = random_config(task, sketch, np.random.default_rng(seed))
            if values is not None:
                loops = loop_program(task.program, sketch, values, TARGETS[0])
                changed += changes_no_result(turn_copies, task.program, loops, 1)
    assert changed
