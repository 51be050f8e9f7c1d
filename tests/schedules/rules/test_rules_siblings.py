"""The rule of siblings: joined reductions run by all sketches, and read their data once."""

from __future__ import annotations

from random import Random

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from helpers.lowering.programs import random_program
from helpers.lowering.truth import check_case
from tilesmith.schedules.auto import derive
from tilesmith.schedules.loops import LoopKind, LoopTree
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task, normalised
from tilesmith.targets.target import parse_target
from tilesmith.tensor.indices.members import member_axes
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.apply.tiers import analytic_pick

TARGET = parse_target("x86:avx512;vector=128")

ROWS = """
input x: f32[19, 133]
s[i: 19] = sum[k: 133](x[i, k])
q[i: 19] = sum[k: 133](x[i, k] * x[i, k])
return s, q
"""
COLUMNS = """
input x: f32[70, 45]
input d: f32[70, 45]
s[i: 45] = sum[k: 70](d[k, i])
q[i: 45] = sum[k: 70](d[k, i] * x[k, i])
return s, q
"""
WHOLE = """
input x: i32[9000]
s[] = max[k: 9000](x[k])
q[] = min[k: 9000](x[k])
return s, q
"""
HISTOGRAMS = """
input x: u8[5, 90]
input y: f32[5, 90]
s[a: 5, b: 256] = sum[i: 90](select(b == i64(x[a, i]), f32(1), 0))
q[a: 5, b: 256] = sum[i: 90](select(b == i64(x[a, i]), y[a, i], 0))
return s, q
"""
WINDOWS = """
input x: f32[21, 37]
s[i: 19, j: 35] = max[r: 3, t: 3](x[i + r, j + t])
q[i: 19, j: 35] = min[r: 3, t: 3](x[i + r, j + t])
return s, q
"""
IN_ROWS = """
input x: f32[23, 61]
input d: f32[23, 61]
s[i: 23] = sum[k: 61](d[i, k])
q[i: 23] = sum[k: 61](d[i, k] * x[i, k])
y[i: 23, k: 61] = d[i, k] - s[i] * 0.5 - x[i, k] * q[i]
return y
"""
GRID = """
input g: f32[32, 48]
v[a: 8, b: 6, z: 8] = sum[r: 4, s: 8](select(z == i64(g[4 * a + r, 8 * b + s] * 5), g[4 * a + r, 8 * b + s], 0))
vb[a: 8, b: 4, z: 8] = v[a, b, z] + v[a, b + 1, z] * 2 + v[a, b + 2, z]
va[a: 6, b: 4, z: 8] = vb[a, b, z] + vb[a + 1, b, z] * 2 + vb[a + 2, b, z]
w[a: 8, b: 6, z: 8] = sum[r: 4, s: 8](select(z == i64(g[4 * a + r, 8 * b + s] * 5), f32(1), 0))
wb[a: 8, b: 4, z: 8] = w[a, b, z] + w[a, b + 1, z] * 2 + w[a, b + 2, z]
wa[a: 6, b: 4, z: 8] = wb[a, b, z] + wb[a + 1, b, z] * 2 + wb[a + 2, b, z]
return va, wa
"""
PROGRAMS = {
    "rows": ROWS,
    "columns": COLUMNS,
    "whole": WHOLE,
    "histograms": HISTOGRAMS,
    "windows": WINDOWS,
    "in rows": IN_ROWS,
    "grid": GRID,
}


def together(program: Program) -> list[Sketch]:
    """The sketches in which siblings are joined."""
    return [sketch for sketch in derive(program) if dict(sketch.variants).get("siblings joined")]


def trees(name: str) -> list[LoopTree]:
    program = body_of(parse(PROGRAMS[name]))
    return [
        sketch.apply(program, HOST, values)
        for sketch in together(program)
        for values in some_configs(program, sketch, 2)
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_siblings_run_by_all_sketches(name: str) -> None:
    program = body_of(parse(PROGRAMS[name]))
    found = trees(name)
    assert found
    for number, tree in enumerate(found):
        assert_runs(program, tree, number)


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_over_members_are_written_out_inside_of_all_loops(name: str) -> None:
    for tree in trees(name):
        for stage in tree.stages:
            joined = member_axes(tree.definition(stage.stage))
            for loop in (loop for loop in stage.loops if loop.axis in joined):
                inside = stage.loops[stage.position(loop.name) :]
                assert all(x.kind in (LoopKind.UNROLL, LoopKind.VECTOR) or x.runs_once for x in inside) or (
                    name in ("histograms", "grid")  # nobody runs the loops over places
                )
                assert loop.kind is LoopKind.UNROLL


def test_apart_is_a_choice() -> None:
    program = body_of(parse(ROWS))
    found = {dict(sketch.variants).get("siblings joined") for sketch in derive(program) if sketch.steps}
    assert found == {True, False}


@pytest.mark.parametrize("text", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_the_model_joins_what_comes_from_memory(text: str) -> None:
    """It counts the data of both sums once."""
    large = text.replace("19", "2000").replace("133", "3000").replace("70", "2000").replace("45", "3000")
    pick = analytic_pick(Task.of(parse(large), HOST, 1))
    assert dict(pick.sketch.variants)["siblings joined"] is True


def test_counts_are_those_of_the_code() -> None:
    checked = 0
    for seed in range(6):
        random = Random(seed)
        program = normalised(random_program(random, "siblings"))
        for sketch in together(program):
            checked += check_case(program, sketch, TARGET, random)
    assert checked


def test_windows_over_what_is_computed_here_stay_apart() -> None:
    """They belong to a tile, and who finishes them has them in registers."""
    filtered = "x: f32[21, 37]\n        d[i: 21, j: 37] = x[i, j] * x[20 - i, j]"
    assert not together(body_of(parse(WINDOWS.replace("x: f32[21, 37]", filtered).replace("(x[", "(d["))))


def test_products_with_reuse_stay_apart() -> None:
    program = body_of(
        parse("""
            input A: f32[64, 48]
            input B: f32[48, 32]
            input C: f32[48, 32]
            s[i: 64, j: 32] = sum[k: 48](A[i, k] * B[k, j])
            q[i: 64, j: 32] = sum[k: 48](A[i, k] * C[k, j])
            return s, q
        """)
    )
    assert not together(program)
