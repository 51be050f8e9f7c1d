"""Register tiles of windows without conditions that hold in all of them: what has two versions, and that results stay."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.lowering.candidates import drawn
from helpers.lowering.derived import body_of, some_configs
from helpers.lowering.programs import MAKERS, random_program
from helpers.lowering.truth import exact_inputs, run_lowered
from tilesmith.codegen.ir.loop_ir import If, LoopProgram, statements
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.passes import whole_tiles as passes
from tilesmith.codegen.passes.whole_tiles import whole_tiles
from tilesmith.codegen.pipeline import build, loop_program
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512")
COUNT = 32
HEAD = """program p
  argument x: f32[50] in input
  argument y: f32[50] in output
nest y:
"""
TILE = """  for i < i64(12):
    allocate s: f32[4] in register
      unroll u < i64(4):
        s[u] = f32(0)
      for r < i64(3) unroll 3:
        unroll u < i64(4):
          s[u] += select(0 <= i * 4 + u + r - 1 and i * 4 + u + r - 1 < 48, x[i * 4 + u + r - 1], 0)
      unroll u < i64(4):
        y[i * 4 + u] = s[u]
"""

PROGRAMS: dict[str, Program] = {
    "depthwise": ops.depthwise_conv2d(1, 3, 19, 53, padding=1),
    "depthwise strided": ops.depthwise_conv2d(1, 2, 23, 41, kernel=5, stride=2, padding=2),
    "depthwise nhwc": ops.depthwise_conv2d(1, 19, 14, 17, padding=1, layout="nhwc"),
    "depthwise strided nhwc": ops.depthwise_conv2d(1, 18, 17, 22, stride=2, padding=1, layout="nhwc"),
    "max": ops.max_pool2d(1, 3, 19, 45, kernel=3, stride=2, padding=1),
    "mean of one side": parse(
        """
input x: f32[5, 90]
y[i: 5, j: 90] = sum[r: 3](select(j + r < 90, x[i, j + r], 0))
z[i: 5, j: 90] = y[i, j] / 3
return z"""
    ),
}


def passed(body: str) -> str:
    return print_loops(whole_tiles(parse_loops(HEAD + body))).removeprefix(HEAD)


def test_a_tile_has_a_version_for_those_away_from_the_border() -> None:
    text = passed(TILE)
    assert "if -(i * 4) <= -1 and i * 4 <= 43:" in text
    whole, rest = text.split("else:")
    assert "select" not in whole and "allocate s" in whole
    assert "select(0 <= i * 4 + u + r - 1 and i * 4 + u + r - 1 < 48" in rest


@pytest.mark.parametrize(
    "change",
    [
        (" unroll 3", ""),  # a loop that stays one: its accumulators would have to outlive a branch
        ("x[i * 4 + u + r - 1], 0)", "x[i * 4 + u + r - 1] + x[0], x[1])"),
        ("0 <= i * 4 + u + r - 1 and i * 4 + u + r - 1 < 48", "x[i] < 3"),
        ("0 <= i * 4 + u + r - 1 and i * 4 + u + r - 1 < 48", "r < 2"),
    ],
)
def test_what_is_no_straight_code_or_no_bound_of_places_stays(change: tuple[str, str]) -> None:
    body = TILE.replace(*change)
    assert body != TILE
    stays = "x[0]" not in change[1]
    assert (passed(body) == print_loops(parse_loops(HEAD + body)).removeprefix(HEAD)) is stays


def test_long_code_is_not_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "MOST", 10)
    assert "else" not in passed(TILE)


def branches(loops: LoopProgram) -> int:
    return sum(isinstance(s, If) for nest in loops.nests for s in statements(nest.body))


def same(program: Program, loops: LoopProgram, seed: int) -> bool:
    """Asserts that results stay, bit for bit, and nothing else is read; whether the pass changed something."""
    inputs, changed = exact_inputs(program, seed), whole_tiles(loops)
    results = [run_lowered(program, each, inputs)[1] for each in (loops, changed)]
    for before, after in zip(*results, strict=True):
        assert before.tobytes() == after.tobytes()
    return branches(changed) > branches(loops)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_stay(name: str) -> None:
    random = Random(name)
    program = random_program(random, name)
    same(program, drawn(program, TARGET, random, COUNT), 1)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_windows_with_borders_have_both_versions_and_results_stay(name: str) -> None:
    program = body_of(PROGRAMS[name])
    sketch = derive(program)[-1]  # the one that asks at each load
    found = 0
    for number, values in enumerate(some_configs(program, sketch, 5, TARGET)):
        loops = loop_program(program, sketch, values, TARGET)
        found += branches(whole_tiles(loops)) > branches(loops)
        inputs = exact_inputs(program, number)
        kernel = Kernel(build(program, sketch, values, parse_target("host"), 2))
        outputs = kernel(*inputs)
        for got, want, scale in zip(
            outputs if isinstance(outputs, tuple) else (outputs,),
            evaluate(program, inputs),
            evaluate(program, inputs, absolute=True),
            strict=True,
        ):
            assert np.all(np.abs(got.reshape(want.shape) - want) <= 1e-5 * scale + 1e-30)
    assert found


def test_small_windows_with_borders_run_the_same_in_the_interpreter() -> None:
    program = body_of(ops.max_pool2d(1, 1, 9, 25, kernel=3, stride=2, padding=1))
    sketch = derive(program)[-1]
    configs = some_configs(program, sketch, 6, TARGET)
    assert sum(same(program, loop_program(program, sketch, values, TARGET), 1) for values in configs)
