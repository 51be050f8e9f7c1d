"""Sums over equal windows that read the same walk them together: which do, and that nothing else comes out."""

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
from tilesmith.codegen.passes.join_windows import join_windows
from tilesmith.codegen.passes.lift_branches import lift_branches
from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512;vector=128")
HEAD = """program p
  argument x: f32[8, 8] in input
  argument w: f32[8, 8] in input
  argument y: f32[2] in output
  argument z: f32[2] in output
nest y:
"""
SUM = """    allocate a: f32[2] in register
      unroll i < i64(2):
        a[i] = f32(0)
      for r < i64(3) unroll 3:
        for s < i64(2) unroll 2:
          unroll j < i64(2):
            a[j] += x[r + j, s]
      unroll k < i64(2):
        y[k] = a[k]
"""
NAMES = {"allocate a": "allocate b", "a[": "b[", "i <": "m <", "[i]": "[m]", "r <": "t <", "[r ": "[t ", "s <": "u <",
         ", s]": ", u]", "j <": "n <", "[j]": "[n]", "+ j": "+ n", "k <": "o <", "[k]": "[o]", "y[": "z["}  # fmt: skip


def renamed(text: str) -> str:
    for old, new in NAMES.items():
        text = text.replace(old, new)
    return text


OTHER = renamed(SUM)


def results(loops: LoopProgram) -> list[np.ndarray]:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    y, z = np.ones(2, np.float32), np.ones(2, np.float32)
    Interpreter(loops).run([x, x * x, y, z])
    return [y, z]


def test_sums_that_read_the_same_walk_together_and_rows_are_innermost() -> None:
    loops = parse_loops(HEAD + SUM + OTHER)
    changed = join_windows(loops)
    text = print_loops(changed)
    assert text.count("unroll 3") == 1
    assert text.index("for s") < text.index("for r")
    for before, after in zip(results(loops), results(changed), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    "other",
    [
        OTHER.replace("x[", "w["),
        OTHER.replace("t < i64(3) unroll 3", "t < i64(2) unroll 2"),
        OTHER.replace("x[t + n, u]", "x[t + n, u] * y[n]"),
        OTHER.replace("z[", "y["),
        "    z[0] = x[0, 0]\n" + OTHER,
    ],
    ids=["other data", "another window", "the result of the first", "the same result", "something between"],
)
def test_others_stay_apart(other: str) -> None:
    loops = parse_loops(HEAD + SUM + other)
    assert join_windows(loops) == loops


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_stay(name: str) -> None:
    random = Random(name)
    program = random_program(random, name)
    changes_no_result(join_windows, program, drawn(program, TARGET, random, 32), 1)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_pipelines_stay(seed: int) -> None:
    program = body_of(drawn_pipeline(seed))
    for sketch in derive(program)[1:3]:
        for values in some_configs(program, sketch, 1):
            changes_no_result(join_windows, program, loop_program(program, sketch, values, TARGET), seed)


CORNERS = """
input x: f32[8, 23]
p[i: 6, j: 23] = x[i, j] - x[i + 2, j]
q[i: 6, j: 23] = x[i, j] + x[i + 1, j] + x[i + 2, j]
a[i: 4, j: 21] = sum[r: 3, s: 3](p[i + r, j + s] * p[i + r, j + s])
b[i: 4, j: 21] = sum[r: 3, s: 3](q[i + r, j + s] * q[i + r, j + s])
c[i: 4, j: 21] = sum[r: 3, s: 3](p[i + r, j + s] * q[i + r, j + s])
y[i: 4, j: 21] = a[i, j] * b[i, j] - c[i, j] * c[i, j]
return y
"""


def test_three_sums_of_a_block_walk_one_window() -> None:
    """Sums of products of gradients: the first sum shares its data with the last one only."""
    program = body_of(parse(CORNERS))
    (sketch,) = [one for one in derive(program) if dict(one.variants).get("stages") == "tiles"][:1]
    (values,) = some_configs(program, sketch, 1)
    loops = join_branches(lift_branches(loop_program(program, sketch, values, TARGET)))
    assert changes_no_result(join_windows, program, loops, 3)
    assert print_loops(join_windows(loops)).count("unroll 3") < print_loops(loops).count("unroll 3")
