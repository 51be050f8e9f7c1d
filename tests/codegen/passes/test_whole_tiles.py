"""Tiles that others run in and that begin earlier to end with whole vectors: which do, and that nothing else comes out."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.lowering.derived import body_of, some_configs
from helpers.lowering.interpreter import Interpreter
from helpers.lowering.truth import changes_no_result
from helpers.pipelines import drawn_pipeline
from tilesmith.codegen.ir.loop_ir import LoopProgram
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.passes.whole_ends import whole_ends
from tilesmith.codegen.passes.whole_tiles import whole_tiles
from tilesmith.codegen.pipeline import build, loop_program
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512;vector=128")  # whose list of passes leaves edges as they are
HEAD = """program p
  argument x: f32[9, 48] in input
  argument y: f32[9, 46] in output
nest y:
"""
WINDOW = """  parallel b < i64(6):
    let size = min(8, 46 - b * 8)
      allocate t: f32[4, 8] in stack
        for i < i64(9):
          for q < (size + 7) // 8:
            let part = min(8, size - q * 8)
              if 7 < part:
                vector j < i64(8):
                  t[i % 4, q * 8 + j] = x[i, b * 8 + q * 8 + j] * 2
              else:
                vector l < i64(8) valid part:
                  t[i % 4, q * 8 + l] = x[i, b * 8 + q * 8 + l] * 2
          for r < (size + 7) // 8:
            let rest = min(8, size - r * 8)
              if 7 < rest:
                vector k < i64(8):
                  y[i, b * 8 + r * 8 + k] = t[i % 4, r * 8 + k] + x[i, b * 8 + r * 8 + k + 2]
              else:
                vector m < i64(8) valid rest:
                  y[i, b * 8 + r * 8 + m] = t[i % 4, r * 8 + m] + x[i, b * 8 + r * 8 + m + 2]
"""
SHORT = WINDOW.replace("46 - b * 8", "7 - b * 8").replace("b < i64(6)", "b < i64(1)")
TRIPS = WINDOW.replace("x[i, b * 8 + r * 8 + k + 2]", "x[i, b]").replace("x[i, b * 8 + r * 8 + m + 2]", "x[i, b]")
KEPT = """  allocate s: f32[48] in stack
    for b < i64(6):
      let size = min(8, 46 - b * 8)
        for i < i64(9):
          for r < (size + 7) // 8:
            let rest = min(8, size - r * 8)
              if 7 < rest:
                vector k < i64(8):
                  s[r * 8 + k] = x[i, b * 8 + r * 8 + k]
                vector n < i64(8):
                  y[i, b * 8 + r * 8 + n] = s[r * 8 + n]
              else:
                vector m < i64(8) valid rest:
                  s[r * 8 + m] = x[i, b * 8 + r * 8 + m]
                vector o < i64(8) valid rest:
                  y[i, b * 8 + r * 8 + o] = s[r * 8 + o]
"""
READ_AGAIN = WINDOW.replace("x[i, b * 8 + r * 8 + k + 2]", "y[i, b * 8 + r * 8 + k]").replace(
    "x[i, b * 8 + r * 8 + m + 2]", "y[i, b * 8 + r * 8 + m]"
)
EVEN = WINDOW.replace("46 - b * 8", "48 - b * 8")


def results(loops: LoopProgram) -> np.ndarray:
    x = np.arange(9 * 48, dtype=np.float32).reshape(9, 48)
    y = np.ones((9, 46), np.float32)
    Interpreter(loops).run([x, y])
    return y


@pytest.mark.parametrize("body", [WINDOW, WINDOW.replace("parallel b", "for b"), WINDOW.replace("46 - b", "45 - b")])
def test_tiles_end_with_whole_vectors(body: str) -> None:
    loops = parse_loops(HEAD + body)
    changed = whole_ends(whole_tiles(loops))
    assert "valid" in print_loops(whole_ends(loops)) and "valid" not in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(loops))


@pytest.mark.parametrize("body", [SHORT, TRIPS, KEPT, READ_AGAIN, EVEN])
def test_what_cannot_begin_earlier_or_need_not_stays(body: str) -> None:
    loops = parse_loops(HEAD + body)
    assert print_loops(whole_tiles(loops)) == print_loops(loops)


def test_places_that_are_divided_stay_multiples() -> None:
    loops = parse_loops(HEAD + WINDOW)
    assert print_loops(whole_tiles(loops, {"y": 2})) != print_loops(loops)
    assert print_loops(whole_tiles(loops, {"y": 3})) == print_loops(loops)


@pytest.mark.parametrize("seed", range(12))
def test_drawn_pipelines_stay(seed: int) -> None:
    program = body_of(drawn_pipeline(seed))
    for sketch in derive(program)[1:3]:
        for values in some_configs(program, sketch, 1):
            changes_no_result(whole_tiles, program, loop_program(program, sketch, values, TARGET), seed)


IMAGE = """input x: u8[19, 83]
    a[i: 19, j: 81] = i16(x[i, j]) + i16(x[i, j + 1]) * 2 + i16(x[i, j + 2])
    b[i: 17, j: 81] = u8((a[i, j] + a[i + 1, j] * 2 + a[i + 2, j]) // 16)
    return b"""


def test_images_of_bytes_have_whole_tiles() -> None:
    program, changed = body_of(parse(IMAGE)), 0
    for sketch in derive(program)[1:]:
        for values in some_configs(program, sketch, 3):
            changed += changes_no_result(whole_tiles, program, loop_program(program, sketch, values, TARGET), 2)
    assert changed > 2


def test_windows_over_bytes_ask_of_no_lane() -> None:
    """A masked vector of 32 bytes is more than 32 branches: such code was twenty times as long, and three times as slow."""
    program, short = body_of(parse(IMAGE)), parse_target("x86:avx2")
    sketch = next(one for one in derive(program) if "sliding" in one.title)
    sizes = {"rows": 4, "vectors": 1, "tile": 2, "columns": 1, "streaming": 0}
    values = {t.name: sizes[t.name.split(".")[-1]] for t in sketch.tunables}
    artifact = build(program, sketch, values, short, 1, True)
    assert artifact.texts is not None and artifact.texts["asm"].count("\n") < 3000
    x = np.random.default_rng(0).integers(0, 256, (19, 83)).astype(np.uint8)
    wide = x.astype(np.int64)
    rows = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    wanted = (rows[:-2] + 2 * rows[1:-1] + rows[2:]) // 16
    np.testing.assert_array_equal(Kernel(artifact)(x), wanted)
