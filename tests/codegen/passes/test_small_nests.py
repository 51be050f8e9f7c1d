"""Nests with little work start no threads; larger ones do; both compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.codegen.passes.keep_small_serial import SMALL, instructions, keep_small_serial
from tilesmith.codegen.pipeline import build, loop_program
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import ConfigValue, config
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

HOST = parse_target("host")


def default(program: Program) -> tuple[Task, Sketch, dict[str, ConfigValue]]:
    task = Task.of(program, HOST, 2)
    sketch = task.sketches[1]
    config_space = sketch.config_space(task.body, HOST)
    return task, sketch, config(config_space, config_space.default)


@pytest.mark.parametrize(("rows", "threads"), [(1, False), (5, False), (8, False), (1000, True)])
def test_threads_start_where_there_is_work(rows: int, threads: bool) -> None:
    task, sketch, values = default(ops.bias_relu(rows, 509))
    artifact = build(task.program, sketch, values, HOST, 2)
    assert ("GOMP_parallel" in artifact.runtime_symbols) == threads
    x, bias = np.random.default_rng(0).standard_normal((rows + 1, 509), np.float32)[:rows], np.ones(509, np.float32)
    assert np.array_equal(Kernel(artifact)(x, bias), np.maximum(x + bias, 0))


def test_the_same_nest_grows_with_its_sizes() -> None:
    def work(rows: int) -> float:
        task, sketch, values = default(ops.bias_relu(rows, 512))
        (nest,) = loop_program(task.program, sketch, values, HOST).nests
        return instructions(nest.body, {}, HOST)

    assert work(2) < work(4) < SMALL < work(512)
    assert work(512) == pytest.approx(4 * work(128), rel=0.01)


def test_functions_count_for_more_than_additions() -> None:
    """So that 4,096 exponentials are divided where 4,096 additions are not."""

    def work(program: Program) -> float:
        task, sketch, values = default(program)
        return sum(instructions(nest.body, {}, HOST) for nest in loop_program(task.program, sketch, values, HOST).nests)

    assert work(ops.exp(4096)) > 2 * work(ops.abs(4096))


def test_a_large_program_stays_as_it_is() -> None:
    task, sketch, values = default(ops.matmul(256, 256, 256))
    loops = loop_program(task.program, sketch, values, HOST)
    assert keep_small_serial(loops, HOST) == loops
