"""What GPUs cannot do with a schedule is one clear error each, that shows the place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helpers.gpu.trees import matmul
from tilesmith.codegen.pipeline import build
from tilesmith.common.errors import ScheduleError
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

TARGET = parse_target("cuda:sm_90a")
Template = Callable[[Schedule], None]
CASES: list[tuple[Program, Template, str]] = []


def case(program: Program, problem: str) -> Callable[[Template], Template]:
    """Registers a template, and what the error says of it."""

    def register(template: Template) -> Template:
        CASES.append((program, template, problem))
        return template

    return register


@case(ops.row_sum(64, 64), "t0.a1 is bound to threads inside of one thread|runs inside of a reduction over threads")
def points_inside_of_a_reduction(s: Schedule) -> None:
    stage = s.stage("t0")
    (i,), (k,) = stage.axes, stage.reduction
    s.reorder(k, i)
    s.bind("thread", 0, k)


@case(ops.softmax(64, 64), "is bound to threads inside of one thread")
def threads_inside_of_threads(s: Schedule) -> None:
    row, _ = s.stage("t3").axes
    s.bind("thread", 0, row)
    stage = s.compute_at("t2", row)
    s.bind("thread", 0, stage.loops[-1])


@case(ops.softmax(64, 64), "between the loops over threads of t3")
def between_threads(s: Schedule) -> None:
    row, column = s.stage("t3").axes
    s.bind("thread", 0, row, column)
    s.compute_at("t2", row)


@case(ops.softmax(64, 64), "is bound to warps inside of a warp")
def warps_inside_of_warps(s: Schedule) -> None:
    row, column = s.stage("t3").axes
    s.bind("warp", 0, row)
    s.bind("thread", 0, column)
    stage = s.compute_at("t2", row)
    s.bind("warp", 0, stage.loops[-1])


@case(ops.bias_add(8, 64), "has 64 lanes in each of its warps")
def too_many_lanes(s: Schedule) -> None:
    row, column = s.stage("t0").axes
    s.bind("warp", 0, row)
    s.bind("thread", 0, column)


@case(ops.bias_add(64, 32), "asks for 64 warps in a block")
def too_many_warps(s: Schedule) -> None:
    row, column = s.stage("t0").axes
    s.bind("warp", 0, row)
    s.bind("thread", 0, column)


@case(ops.transpose(64, 64), "lives in shared memory, and no block makes it")
def shared_by_nobody(s: Schedule) -> None:
    i, _ = s.stage("t0").axes
    s.bind("thread", 0, i)
    copy = s.copy("x0", "t0", "shared")
    s.compute_at(copy.name, i)


@case(ops.softmax(64, 64), "is made by each warp for itself")
def a_row_for_each_warp(s: Schedule) -> None:
    row, column = s.stage("t3").axes
    block, warp = s.split(row, 4)
    s.bind("block", 0, block)
    s.bind("warp", 0, warp)
    s.bind("thread", 0, s.split(column, 32)[1])
    for name in ("t2", "t1", "t0"):
        stage = s.compute_at(name, warp)
        s.bind("thread", 0, s.split(stage.loops[-1], 32)[1])


@case(ops.softmax(64, 40000), "bytes of t1 for itself")
def too_much_for_a_thread(s: Schedule) -> None:
    row, _ = s.stage("t3").axes
    s.bind("thread", 0, row)
    for name in ("t2", "t1"):
        s.compute_at(name, row)


case(ops.matmul(4096, 4096, 4096), "bytes of shared memory")(matmul(stages=64, rows=8))


@case(ops.bias_add(1 << 20, 1 << 12), "asks for 4294967296 blocks")
def too_many_blocks(s: Schedule) -> None:
    s.bind("block", 0, *s.stage("t0").axes)


@pytest.mark.parametrize(("program", "template", "problem"), CASES, ids=[c[1].__name__ for c in CASES])
def test_refused_with_the_place(program: Program, template: Template, problem: str) -> None:
    program = normalised(program)
    sketch = trace(template, program)[0]
    with pytest.raises(ScheduleError, match=problem) as caught:
        build(program, sketch, {}, TARGET, 1)
    assert "<-- here" in str(caught.value)
    assert caught.value.expected


def test_loops_for_gpus_are_refused_on_a_processor() -> None:
    program = normalised(ops.matmul(512, 512, 64))
    sketch = trace(matmul(), program)[0]
    with pytest.raises(ScheduleError, match="bound to GPU threads, which"):
        build(program, sketch, {}, parse_target("x86:avx2"), 1)
