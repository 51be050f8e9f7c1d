"""Sums that run inside of the rows of their reader: how many of them side by side, and that they are right."""

from __future__ import annotations

from math import prod
from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.truth import check_case
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopKind, LoopTree
from tilesmith.schedules.rules.cpu.stream import ROWS_AT_MOST
from tilesmith.schedules.sketch import Sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = parse_target("x86:avx512;vector=128")
MEANS = """
    input x: f32[3, 130, 21]
    input w: f32[130]
    mean[n: 3, c: 130] = sum[p: 21](x[n, c, p] * w[c])
    y[n: 3, c: 130] = mean[n, c] * (1 - mean[n, c])
    return y
    """
GROUPS = """
    input x: f32[3, 5, 7, 19]
    m[n: 3, g: 5, h: 7] = max[p: 19](x[n, g, h, p])
    y[n: 3, p: 19, g: 5, h: 7] = x[n, g, h, p] - m[n, g, h]
    return y
    """
NONE_INSIDE = """
    input x: f32[6, 37]
    total[i: 6] = sum[j: 37](x[i, j])
    y[i: 6, j: 37] = x[i, j] / total[i]
    return y
    """


def beside(program: Program) -> Sketch:
    """The first sketch that takes some sums of a row side by side."""
    return next(sketch for sketch in derive(program) if "t0.beside" in {t.name for t in sketch.tunables})


def written_out(tree: LoopTree, stage: str) -> int:
    """How often the sums of a stage stand in its code: its unrolled loops over what is not summed."""
    own = {axis.name for axis in tree.program.stage(stage).axes}
    return prod(loop.extent for loop in tree.by_stage[stage].loops if loop.kind is LoopKind.UNROLL and loop.axis in own)


@pytest.mark.parametrize("text", [MEANS, GROUPS])
def test_some_sums_of_a_row_are_side_by_side(text: str) -> None:
    program = body_of(parse(text))
    sketch = beside(program)
    assert any(check_case(program, sketch, NARROW, Random(seed), 40_000) for seed in range(12))
    for number, values in enumerate(some_configs(program, sketch, 6)):
        tree = sketch.apply(program, HOST, values)
        assert written_out(tree, "t0") <= ROWS_AT_MOST**2
        assert_runs(program, tree, number)


def test_rows_with_one_sum_have_no_such_choice() -> None:
    assert not any("t0.beside" in {t.name for t in sketch.tunables} for sketch in derive(body_of(parse(NONE_INSIDE))))
