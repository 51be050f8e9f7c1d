"""Schedules of folds: the steps may be blocked, tiled and attached; an order that takes a step in parts is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helpers.lowering.truth import assert_correct, exact_inputs
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.common.errors import ScheduleError
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512;vector=128")
PROGRAM = canonical(
    parse("""
    input x: f32[6, 9]
    input v: f32[9, 7]
    a[i: 6, j: 9] = x[i, j] * 2
    fold[j: 9] {
        top[i: 6]: f32 = -inf
        best[i: 6, d: 7]: f32 = 0
        top = max(top[i], a[i, j])
        best = select(a[i, j] > top[i], v[j, d], best[i, d])
    }
    y[i: 6, d: 7] = best[i, d] + top[i]
    return y
    """)
)


def blocked(s: Schedule) -> None:
    """State of a block of rows; rows inside of a block of steps; values made block by block; columns in vectors."""
    i, _ = s.stage("t3").loops
    i0, _ = s.split(i, 4)
    made = s.compute_at("t1", i0)
    (i, d), (j,) = made.axes, made.reduction
    j0, j1 = s.split(j, 4)
    d0, d1 = s.split(d, 4)
    s.reorder(j0, i, j1, d0, d1)
    s.vectorize(d1)
    s.compute_at("t0", j0)


def unrolled_rows(s: Schedule) -> None:
    (i, d), (j,) = s.stage("t1").axes, s.stage("t1").reduction
    i0, i1 = s.split(i, 4)
    s.reorder(i0, j, i1, d)
    s.parallel(i0)
    s.unroll(i1)


@pytest.mark.parametrize("template", [blocked, unrolled_rows])
def test_schedules_of_a_fold(template: Callable[[Schedule], None]) -> None:
    (sketch,) = trace(template, PROGRAM)
    assert_correct(PROGRAM, sketch.apply(PROGRAM, TARGET, {}), TARGET, exact_inputs(PROGRAM, 2))


def step_in_parts(s: Schedule) -> None:
    (_, d), (j,) = s.stage("t1").axes, s.stage("t1").reduction
    s.reorder(d, j)


def vector_of_steps(s: Schedule) -> None:
    (j,) = s.stage("t1").reduction
    s.vectorize(s.split(j, 4)[1])


def attached_to_a_step(s: Schedule) -> None:
    s.compute_at("t0", s.stage("t1").axes[1])


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (step_in_parts, "t1.a2 stands inside of a loop over an axis that only some of its tensors have"),
        (vector_of_steps, "t1.a2.p1 is a vector loop of the ordered axis"),
        (attached_to_a_step, "t1.a1 is part of a step and has a stage attached to it"),
    ],
)
def test_refused(template: Callable[[Schedule], None], problem: str) -> None:
    (sketch,) = trace(template, PROGRAM)
    with pytest.raises(ScheduleError, match=problem) as caught:
        loop_ir(sketch.apply(PROGRAM, TARGET, {}), TARGET)
    assert "innermost" in caught.value.expected
    assert "<-- here" in caught.value.where
