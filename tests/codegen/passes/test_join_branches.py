"""Branches that ask the same become one: which do, and that nothing else comes out."""

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
from tilesmith.codegen.passes.join_branches import join_branches
from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target

TARGET = parse_target("x86:avx512;vector=128")
HEAD = """program p
  argument x: f32[8] in input
  argument y: f32[8] in output
  argument z: f32[8] in output
nest y:
  for i < i64(8):
"""
FIRST = """    if i < 3:
      y[i] = x[i] + 1
    else:
      y[i] = x[i] * 2
"""
SECOND = FIRST.replace("y[i]", "z[i]").replace("x[i]", "y[i]")
ONE_ARMED = """    if i < 3:
      z[i] = y[i] - 1
"""


def results(loops: LoopProgram) -> list[np.ndarray]:
    x, y, z = np.arange(8, dtype=np.float32), np.ones(8, np.float32), np.ones(8, np.float32)
    Interpreter(loops).run([x, y, z])
    return [y, z]


@pytest.mark.parametrize("others", [SECOND, ONE_ARMED, SECOND + ONE_ARMED])
def test_neighbours_that_ask_the_same_ask_once(others: str) -> None:
    loops = parse_loops(HEAD + FIRST + others)
    changed = join_branches(loops)
    assert print_loops(changed).count("if ") == 1
    np.testing.assert_array_equal(results(changed), results(loops))


@pytest.mark.parametrize(
    "others",
    [SECOND.replace("< 3", "< 4"), "    z[i] = x[i]\n" + ONE_ARMED],
    ids=["another question", "something between"],
)
def test_others_stay_apart(others: str) -> None:
    loops = parse_loops(HEAD + FIRST + others)
    assert join_branches(loops) == loops


def test_a_question_about_memory_is_asked_again() -> None:
    """The first branch may change the answer."""
    loops = parse_loops((HEAD + FIRST + SECOND).replace("i < 3", "y[i] < 3"))
    assert join_branches(loops) == loops


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_stay(name: str) -> None:
    random = Random(name)
    program = random_program(random, name)
    changes_no_result(join_branches, program, drawn(program, TARGET, random, 32), 1)


@pytest.mark.parametrize("seed", range(12))
def test_drawn_pipelines_stay(seed: int) -> None:
    program = body_of(drawn_pipeline(seed))
    for sketch in derive(program)[1:3]:
        for values in some_configs(program, sketch, 1):
            changes_no_result(join_branches, program, loop_program(program, sketch, values, TARGET), seed)
