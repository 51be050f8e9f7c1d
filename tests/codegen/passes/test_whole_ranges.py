"""Loops that are cut where a condition begins to fail: their parts, and that nothing else comes out."""

from __future__ import annotations

from random import Random

import pytest

from helpers.lowering.candidates import drawn
from helpers.lowering.truth import changes_no_result
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.lower.lower import lower
from tilesmith.codegen.passes.whole_ranges import whole_ranges
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512+amx")
COUNT = 32
HEAD = """program p
  argument x: f32[20, 64] in input
  argument y: f32[20, 64] in output
nest y:
"""
STORES = """  for i < i64(20):
    for b < i64(8):
      for one < i64(1):
        vector j < i64(8):
          y[i, b * 8 + j] = select(b * 8 + j <= 3 * i, x[i, b * 8 + j], 0) * 2
"""
SUMS = STORES.replace("] = ", "] += ")
EASY_OR_NOT = """  for i < i64(20):
    for b < i64(8):
      if b * 8 + 7 <= 3 * i:
        vector j < i64(8):
          y[i, b * 8 + j] = x[i, b * 8 + j]
      else:
        vector k < i64(8):
          y[i, b * 8 + k] = select(b * 8 + k <= 3 * i, x[i, b * 8 + k], 5)
"""
SHIFTED = STORES.replace("x[i, b * 8 + j], 0", "x[i, b * 8 + j], x[i, b * 8 + j] + 1")


def passed(body: str) -> str:
    return print_loops(whole_ranges(parse_loops(HEAD + body))).removeprefix(HEAD)


def parts(text: str) -> list[str]:
    """The text of each loop over blocks."""
    return text.split("for b_")[1:]


@pytest.mark.parametrize("body", [STORES, EASY_OR_NOT])
def test_stores_of_constants_are_a_part_of_their_own(body: str) -> None:
    whole, rest, beyond = parts(passed(body).replace("for b <", "for b_whole <"))
    assert "select" not in whole and "if" not in whole
    assert "select" in rest
    assert "x[" not in beyond and "if" not in beyond and "] = f32(" in beyond


@pytest.mark.parametrize("body", [SUMS, SHIFTED])
def test_what_is_summed_or_read_elsewhere_has_two_parts(body: str) -> None:
    whole, rest = parts(passed(body).replace("for b <", "for b_whole <"))
    assert "select" not in whole and "select" in rest


def masked(random: Random) -> Program:
    """Stores, sums and folds of what counts under conditions on two axes, some of which always or never hold."""
    rows, columns = random.randint(1, 20), random.randint(1, 40)
    steps = random.choice((1, 2, 3)), random.choice((1, 3))
    condition = f"{steps[0]} * j {random.choice(('<=', '<'))} {steps[1]} * i + {random.randint(-30, 30)}"
    if random.random() < 0.4:
        condition += f" and j + {random.randint(-3, 3)} <= {random.randint(0, 40)}"
    return canonical(parse(f"""
input x: f32[{rows}, {columns}]
y[i: {rows}, j: {columns}] = select({condition}, x[i, j] * 2, {random.choice(("0", "1", "x[i, j]"))})
z[i: {rows}] = sum[j: {columns}](select({condition}, x[i, j], 0))
return y, z
""".strip()))  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_results_stay(seed: int) -> None:
    random = Random(seed)
    program = masked(random)
    changes_no_result(whole_ranges, program, drawn(program, TARGET, random, COUNT, lower), seed)


def test_many_masks_cut_loops_in_three() -> None:
    cut = 0
    for seed in range(60):
        random = Random(seed)
        cut += "_beyond_" in print_loops(whole_ranges(drawn(masked(random), TARGET, random, COUNT, lower)))
    assert cut >= 8
