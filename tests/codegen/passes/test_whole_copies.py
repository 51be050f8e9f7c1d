"""Copies without conditions that hold: what is dropped, what has two versions, and that nothing else comes out."""

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
from tilesmith.codegen.passes.whole_copies import whole_copies
from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512+amx")
COUNT = 32
HEAD = """program p
  argument x: f32[29, 37] in input
  argument y: f32[32, 48] in output
nest y:
"""
FIRST = """  for b < i64(2):
    for i < i64(16):
      vector j < i64(16):
        y[b * 16 + i, j] = select(b * 16 + i < 29, select(b * 24 + j < 37, x[b * 16 + i, b * 24 + j], 0), 0)
"""
LANES = """  for b < i64(3):
    let size = min(16, 37 - b * 16)
      if 15 < size:
        vector j < i64(16):
          y[0, b * 16 + j] = select(b * 16 + j < 37, x[0, b * 16 + j], 0)
      else:
        vector l < i64(16) valid size:
          y[0, b * 16 + l] = select(b * 16 + l < 37, x[0, b * 16 + l], 0)
"""
FORESEEN = """  for b < i64(2):
    for i < i64(16):
      vector j < i64(16):
        y[b * 16 + i, j] = select(b * 16 + i < 29, x[b * 16 + i, j], 0)
"""
SUMS = """  for b < i64(2):
    for i < i64(16):
      y[b, 0] += select(b * 16 + i < 29, x[b * 16 + i, 0], 0)
"""
BELOW = """  for b < i64(2):
    for i < i64(2):
      vector j < i64(16):
        y[b + i, j] = select(1 <= b * 24 + j and b * 24 + j < 37, x[b + i, b * 24 + j - 1], 0)
"""


def passed(body: str) -> str:
    return print_loops(whole_copies(parse_loops(HEAD + body))).removeprefix(HEAD)


def test_an_innermost_loop_has_a_version_for_whole_blocks() -> None:
    text = passed(FIRST)
    assert "if b * 16 <= 13 and b * 24 <= 21:" in text
    whole, rest = text.split("else:")
    assert "select" not in whole and "select(b * 16 + i < 29" in rest


def test_what_a_branch_or_a_mask_says_of_its_lanes_is_not_asked_again() -> None:
    text = passed(LANES)
    assert "select" not in text and "valid size" in text and "if 15 < size" in text


@pytest.mark.parametrize("body", [FORESEEN, SUMS, BELOW])
def test_branches_alone_and_reductions_and_borders_on_both_sides_stay(body: str) -> None:
    assert passed(body) == print_loops(parse_loops(HEAD + body)).removeprefix(HEAD)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_stay(name: str) -> None:
    random = Random(name)
    program = random_program(random, name)
    changes_no_result(whole_copies, program, drawn(program, TARGET, random, COUNT), 1)


def test_padded_copies_lose_their_conditions_and_results_stay() -> None:
    text = "input x: f32[29, 37]\ny[i: 32, j: 48] = select(i < 29, select(j < 37, x[i, j], 0), 1) * 2\nreturn y\n"
    program, random = canonical(parse(text)), Random(5)
    assert sum(changes_no_result(whole_copies, program, drawn(program, TARGET, random, COUNT), 1) for _ in range(12))


def test_vectors_of_packed_columns_are_whole_without_conditions() -> None:
    task = Task.of(ops.matmul(35, 37, 70), TARGET, 1)
    found = 0
    for sketch in task.sketches:
        values = random_config(task, sketch, np.random.default_rng(0))
        if values is None or "flat=[columns]" not in sketch.text:
            continue
        loops = loop_program(task.program, sketch, values, TARGET)
        before, after = print_loops(loops), print_loops(whole_copies(loops))
        assert "< 37, " in before and "< 37, " not in after, "a branch or the mask of a vector has told it"
        found += 1
    assert found
