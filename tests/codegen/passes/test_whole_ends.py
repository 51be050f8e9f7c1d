"""Last tiles that begin earlier instead of ending late: which do, and that nothing else comes out."""

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
from tilesmith.codegen.passes.whole_ends import whole_ends
from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512;vector=128")  # whose list of passes leaves edges as they are
HEAD = """program p
  argument x: f32[9, 48] in input
  argument y: f32[9, 46] in output
nest y:
"""
ROWS = """  for i < i64(9):
    for b < i64(12):
      let size = min(4, 46 - b * 4)
        if 3 < size:
          vector j < i64(4):
            y[i, b * 4 + j] = x[i, b * 4 + j + 2]
        else:
          vector l < i64(4) valid size:
            y[i, b * 4 + l] = x[i, b * 4 + l + 2]
"""
BOTH = """  for a < i64(5):
    let rows = min(2, 9 - a * 2)
      for b < i64(12):
        let size = min(4, 46 - b * 4)
          if 1 < rows and 3 < size:
            unroll i < i64(2):
              vector j < i64(4):
                y[a * 2 + i, b * 4 + j] = x[a * 2 + i, b * 4 + j + 2]
          else:
            unroll k < i64(2) valid rows:
              vector l < i64(4) valid size:
                y[a * 2 + k, b * 4 + l] = x[a * 2 + k, b * 4 + l + 2]
"""
OWN = """  for i < i64(9):
    for b < i64(12):
      let size = min(4, 46 - b * 4)
        allocate t: f32[4] in register
          if 3 < size:
            vector j < i64(4):
              t[j] = x[i, b * 4 + j] * 2
            vector k < i64(4):
              y[i, b * 4 + k] = t[k]
          else:
            vector l < i64(4) valid size:
              t[l] = x[i, b * 4 + l] * 2
            vector m < i64(4) valid size:
              y[i, b * 4 + m] = t[m]
"""
USED_LATER = """  for i < i64(9):
    for b < i64(12):
      let size = min(4, 46 - b * 4)
        allocate t: f32[4] in register
          if 3 < size:
            vector j < i64(4):
              t[j] = x[i, b * 4 + j] * 2
          else:
            vector l < i64(4) valid size:
              t[l] = x[i, b * 4 + l] * 2
          vector m < i64(4) valid size:
            y[i, b * 4 + m] = t[m]
"""
READ_AGAIN = ROWS.replace("x[i, b * 4 + j + 2]", "y[i, b * 4 + j] + 1").replace(
    "x[i, b * 4 + l + 2]", "y[i, b * 4 + l] + 1"
)
SUMS = ROWS.replace(" = x", " += x")
TRIPS = ROWS.replace("x[i, b * 4 + j + 2]", "x[i, b + j]").replace("x[i, b * 4 + l + 2]", "x[i, b + l]")
SHORT = ROWS.replace("46 - b * 4", "3 - b * 4").replace("b < i64(12)", "b < i64(1)")
ASKS_MORE = ROWS.replace("3 < size", "3 < size and 1 <= i")
ASKS_WHERE = ROWS.replace("3 < size", "3 < size and 1 <= b")
FEW_ROWS = (
    BOTH.replace("a < i64(5)", "a < i64(9)")
    .replace("let rows = min(2, 9 - a * 2)", "let rows = (a + 9 - a) // 9")
    .replace("a * 2", "a")
)
ASKS_WHERE_ROWS = BOTH.replace("1 < rows and 3 < size", "1 < rows and 3 < size and 1 <= a")
FILLS = ASKS_MORE.replace("vector l < i64(4) valid size", "vector l < i64(4)").replace(
    "y[i, b * 4 + l] = x[i, b * 4 + l + 2]", "y[i, min(b * 4 + l, 45)] = select(l < size, x[i, b * 4 + l + 2], 0)"
)


def results(loops: LoopProgram) -> np.ndarray:
    x = np.arange(9 * 48, dtype=np.float32).reshape(9, 48)
    y = np.ones((9, 46), np.float32)
    Interpreter(loops).run([x, y])
    return y


@pytest.mark.parametrize(
    "body", [ROWS, BOTH, OWN, BOTH.replace("for a", "parallel a").replace("for b", "parallel b"), ASKS_MORE]
)
def test_ends_are_whole(body: str) -> None:
    loops = parse_loops(HEAD + body)
    changed = whole_ends(loops)
    assert "valid" in print_loops(loops) and "valid" not in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(loops))


def test_rows_that_are_not_whole_have_whole_vectors() -> None:
    """Rows of a tile that are missing are left out one by one; that says nothing of its columns."""
    loops = parse_loops(HEAD + FEW_ROWS)
    changed = print_loops(whole_ends(loops))
    assert "valid size" in print_loops(loops) and "valid rows" in changed and "valid size" not in changed
    np.testing.assert_array_equal(results(whole_ends(loops)), results(loops))


@pytest.mark.parametrize("body", [ASKS_WHERE, ASKS_WHERE_ROWS])
def test_tiles_at_borders_begin_earlier_by_themselves(body: str) -> None:
    """Where a tile is easy only if something else holds too, the guarded tiles have whole ends and stay guarded."""
    loops = parse_loops(HEAD + body)
    changed = whole_ends(loops)
    assert "valid" in print_loops(loops) and "valid" not in print_loops(changed)
    assert print_loops(changed).count("else") == 1 and "_begin = min(" in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(loops))


@pytest.mark.parametrize("body", [READ_AGAIN, SUMS, TRIPS, SHORT, FILLS, USED_LATER])
def test_what_cannot_begin_earlier_stays(body: str) -> None:
    loops = parse_loops(HEAD + body)
    assert print_loops(whole_ends(loops)) == print_loops(loops)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_results_stay(name: str) -> None:
    random = Random(name)
    program = random_program(random, name)
    changes_no_result(whole_ends, program, drawn(program, TARGET, random, 32), 1)


def test_images_of_bytes_have_whole_ends() -> None:
    text = """input x: u8[19, 83]
        a[i: 19, j: 81] = i16(x[i, j]) + i16(x[i, j + 1]) * 2 + i16(x[i, j + 2])
        b[i: 17, j: 81] = u8((a[i, j] + a[i + 1, j] * 2 + a[i + 2, j]) // 16)
        return b"""
    program, changed = body_of(parse(text)), 0
    for sketch in derive(program)[1:]:
        for values in some_configs(program, sketch, 3):
            changed += changes_no_result(whole_ends, program, loop_program(program, sketch, values, TARGET), 2)
    assert changed > 3


@pytest.mark.parametrize("seed", range(12))
def test_drawn_pipelines_stay(seed: int) -> None:
    program = body_of(drawn_pipeline(seed))
    for sketch in derive(program)[1:3]:
        for values in some_configs(program, sketch, 1):
            changes_no_result(whole_ends, program, loop_program(program, sketch, values, TARGET), seed)


PARITY = ROWS.replace("x[i, b * 4 + j + 2]", "x[i, b * 2 + j // 2] + f32(j % 2)").replace(
    "x[i, b * 4 + l + 2]", "x[i, b * 2 + l // 2] + f32(l % 2)"
)
RING = """  for i < i64(9):
    allocate t: f32[4, 46] in scratch
      for b < i64(12):
        let size = min(4, 46 - b * 4)
          if 3 < size:
            unroll k < i64(4):
              vector j < i64(4):
                t[k, b * 4 + j] = x[i, b * 4 + j + 2] * f32(k)
          else:
            unroll m < i64(4):
              vector l < i64(4) valid size:
                t[m, b * 4 + l] = x[i, b * 4 + l + 2] * f32(m)
      for c < i64(46):
        y[i, c] = t[1, c]
"""


def test_places_that_are_divided_stay_multiples() -> None:
    """What of b * 4 + j is odd follows from j alone, as long as all tiles begin at even places."""
    loops = parse_loops(HEAD + PARITY)
    changed = whole_ends(loops, {"y": 2})
    assert "valid" not in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(loops))
    odd = parse_loops((HEAD + PARITY).replace("46 - b", "45 - b"))
    assert print_loops(whole_ends(odd, {"y": 2})) == print_loops(odd)


def test_rows_of_a_ring_stay_where_they_are() -> None:
    """The row of `t` says nothing of which row it holds."""
    loops = parse_loops(HEAD + RING)
    np.testing.assert_array_equal(results(whole_ends(loops)), results(loops))
    assert "valid" not in print_loops(whole_ends(loops))
    folded = parse_loops(HEAD + RING.replace("t[k, b * 4 + j]", "t[k, (b * 4 + j) % 46]"))
    assert print_loops(whole_ends(folded)) == print_loops(folded)
    unmoved = parse_loops(HEAD + RING.replace("t[k, b * 4 + j]", "t[k, j]").replace("t[m, b * 4 + l]", "t[m, l]"))
    assert print_loops(whole_ends(unmoved)) == print_loops(unmoved)


RING_OF_ROWS = """  allocate t: f32[4, 46] in scratch
    for a < i64(5):
      let rows = min(2, 9 - a * 2)
        for b < i64(12):
          let size = min(4, 46 - b * 4)
            if 1 < rows and 3 < size and 1 <= a:
              unroll i < i64(2):
                vector j < i64(4):
                  t[(a * 2 + i) % 4, b * 4 + j] = x[a * 2 + i, b * 4 + j + 2]
            else:
              unroll k < i64(2) valid rows:
                vector l < i64(4) valid size:
                  t[(a * 2 + k) % 4, b * 4 + l] = x[a * 2 + k, b * 4 + l + 2]
        for d < rows:
          for c < i64(46):
            y[a * 2 + d, c] = t[(a * 2 + d) % 4, c]
"""


def test_columns_begin_earlier_where_the_rows_of_a_ring_cannot() -> None:
    loops = parse_loops(HEAD + RING_OF_ROWS)
    changed = whole_ends(loops)
    assert "valid rows" in print_loops(changed) and "valid size" not in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(loops))
    folded = parse_loops(HEAD + RING_OF_ROWS.replace("b * 4 + l]", "(b * 4 + l) % 46]"))
    assert "valid size" in print_loops(whole_ends(folded))


def test_what_is_divided_elsewhere_does_not_matter() -> None:
    odd = parse_loops((HEAD + ROWS).replace("46 - b", "45 - b"))
    changed = whole_ends(odd, {"x": 1, "y": 1, "z": 2})
    assert "valid" not in print_loops(changed)
    np.testing.assert_array_equal(results(changed), results(odd))
    assert print_loops(whole_ends(odd, {"z": 2})) == print_loops(odd)  # who knows what y is made of
