"""Scans: results that a fold writes in step cost one store a step; what only looks like it stays what it says."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from helpers.lowering.sketches import random_sketch
from helpers.lowering.truth import assert_correct, check_case, exact_inputs
from helpers.pipeline.candidates import complaint, random_config
from helpers.plain_evaluation import plain_results
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate, evaluate_at
from tilesmith.tensor.program import Program
from tilesmith.tensor.scan import written_in_step
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

FOLD = """
input x: f32[5, 9]
fold[k: 9] {{
    s[i: 5]: f32 = 0
    y[i: 5, j: {size}]: f32 = 7
    let new = s[i] + x[i, k]
    s = new
    y = {body}
}}
return y, s
"""
IN_STEP = ["select(j == k, new, y[i, j])", "select(k == j, s[i], y[i, j])", "select(j + k == 8, new * 2, y[i, j])"]
OTHERS = [
    (9, "select(j <= k, new, y[i, j])"),
    (9, "select(j == k, new * f32(j), y[i, j])"),
    (9, "select(j == k, new + y[i, j], y[i, j])"),
    (9, "select(j == k + 1, new, y[i, j])"),
    (12, "select(j == k, new, y[i, j])"),
    (6, "select(j == k, new, y[i, j])"),
    (9, "select(j == k, new, 0)"),
]
BOTH = (
    """
input x: f32[4, 9, 5]
fold[k: 9] {
    sum[i: 4, d: 5]: f32 = 0
    top[i: 4]: f32 = -inf
    sums[i: 4, d: 5, j: 9]: f32 = 0
    sum = sum[i, d] + x[i, k, d]
    top = max(top[i], x[i, k, 0])
    sums = select(j == k, sum[i, d] * top[i], sums[i, d, j])
}
y[i: 4, j: 9] = max[d: 5](sums[i, d, j])
return y, sum
""".replace("sum[", "s[")
    .replace("sum =", "s =")
    .replace("sum\n", "s\n")
)


def right(program: Program) -> None:
    task = Task.of(program, parse_target("host"), 2)
    rng = np.random.default_rng(0)
    for sketch in task.sketches:
        values = random_config(task, sketch, rng)
        assert values is not None and complaint(task, sketch, values, 3) is None


@pytest.mark.parametrize("body", IN_STEP)
def test_results_in_step_need_no_loop_of_their_own(body: str) -> None:
    program = parse(FOLD.format(size=9, body=body))
    assert written_in_step(program.stages[0], 0) is None
    found = written_in_step(program.stages[0], 1)
    assert found is not None and found.axis == "j"
    task = Task.of(program, parse_target("host"), 1)
    loops = build(task.program, UNSCHEDULED, {}, task.target, 1, texts=True).texts["loops"]
    assert loops.count("for ") == 2
    right(program)


@pytest.mark.parametrize(("size", "body"), OTHERS)
def test_what_only_looks_like_a_scan_is_none(size: int, body: str) -> None:
    program = parse(FOLD.format(size=size, body=body))
    assert written_in_step(program.stages[0], 1) is None
    right(program)


def test_several_states_feed_one_scan() -> None:
    program = parse(BOTH)
    assert written_in_step(program.stages[0], 2) is not None
    right(program)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scans_along_any_axis(axis: int) -> None:
    right(ops.cumsum((5, 7, 9), axis=axis))
    right(ops.cummax((5, 1, 9), axis=axis, reverse=True))


def test_a_part_of_a_scan_is_written_where_it_is_attached() -> None:
    program = canonical(
        parse("""
        input x: f32[6, 9]
        fold[k: 9] {
            s[i: 6]: f32 = 0
            y[i: 6, j: 9]: f32 = 0
            let new = s[i] + x[i, k]
            s = new
            y = select(j == k, new, y[i, j])
        }
        z[i: 6, j: 9] = y[i, j] * 2
        return z
        """)
    )

    def attached(s: Schedule) -> None:
        i, j = s.stage("t2").loops
        i0, _ = s.split(i, 4)
        j0, j1 = s.split(j, 4)
        s.reorder(i0, j0, j1)
        s.compute_at("t0", j0)

    (sketch,) = trace(attached, program, "attached")
    target = parse_target("x86:avx2")
    assert_correct(program, sketch.apply(program, target, {}), target, exact_inputs(program, 2))


OTHER_ORDERS = {
    "down the columns": """
        input x: f32[9, 21]
        fold[k: 9] {
            s[j: 21]: f32 = 0
            y[i: 9, j: 21]: f32 = 7
            let new = s[j] + (x[k, j] - s[j]) * 0.25
            s = new
            y = select(i == k, new, y[i, j])
        }
        return y
        """,
    "state that is turned": """
        input x: f32[7, 5]
        input v: f32[7, 6]
        fold[k: 7] {
            m[i: 5]: f32 = -inf
            o[d: 6, i: 5]: f32 = 0
            let top = max(m[i], x[k, i])
            m = top
            o = o[d, i] * 0.5 + v[k, d] * top
        }
        z[i: 5, d: 6] = o[d, i] + m[i]
        return z, o
        """,
    "between": """
        input x: f32[4, 9, 6]
        fold[k: 9] {
            s[i: 4, j: 6]: f32 = 1
            y[i: 4, r: 9, j: 6]: f32 = 0
            let new = s[i, j] * 0.5 + x[i, 8 - k, j]
            s = new
            y = select(r + k == 8, new, y[i, r, j])
        }
        z[i: 4, r: 9, j: 6] = y[i, r, j] + x[i, r, j]
        return z
        """,
}


@pytest.mark.parametrize("name", OTHER_ORDERS)
def test_tensors_of_a_fold_have_their_own_order(name: str) -> None:
    program = parse(OTHER_ORDERS[name])
    assert parse(str(program)) == program and parse(str(canonical(program))) == canonical(program)
    inputs = random_inputs(program, 2)
    for ours, plain in zip(evaluate(program, inputs), plain_results(program, inputs), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)
    output = program.outputs[0]
    points = np.argwhere(np.ones(program.tensors[output].shape))
    at = evaluate_at(program, inputs, output, points)
    np.testing.assert_allclose(at, evaluate(program, inputs)[0].reshape(-1), rtol=1e-12)
    right(program)
    random = Random(1)
    for _ in range(6):
        check_case(
            canonical(program), random_sketch(canonical(program), random), parse_target("x86:avx2"), random, exact=False
        )
