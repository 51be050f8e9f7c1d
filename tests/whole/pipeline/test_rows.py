"""Arguments that lie in rows of wider tensors: any candidate reads and writes their elements, and nothing between the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, note, settings

import tilesmith as ts
from helpers.pipeline.anything import WITHOUT_LIMITS, anything, drawn_candidate, seeds
from helpers.pipeline.candidates import complaint, random_config
from tilesmith.codegen.pipeline import build, loop_tree
from tilesmith.codegen.rows import ArgumentRows, PitchedRows, strides_of
from tilesmith.common.errors import InternalError, ScheduleError
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program

GAPS = (1, 5, 16, 64)


def drawn_rows(task: Task, rng: np.random.Generator) -> ArgumentRows:
    """Rows of some arguments, each as wide as some dimensions of the normal form and a gap."""
    outputs = [task.body.tensors[name] for name in task.body.outputs]
    found: list[PitchedRows | None] = []
    for tensor in (*task.body.dynamic_inputs, *outputs):
        widths = sorted({step for step in strides_of(tensor.shape)[:-1] if step > 1})
        length = int(rng.choice(widths)) if widths and rng.integers(4) else None
        found.append(None if length is None else PitchedRows(length, length + int(rng.choice(GAPS))))
    return tuple(found) if any(found) else ()


def check(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    task, sketch, values = drawn_candidate(program, rng)
    rows = drawn_rows(task, rng)
    assume(rows)
    note(str(rows))
    shapes = shapes_at_last(loop_tree(task.program, sketch, values, task.target).program)
    assume(all(own is None or own.fit(shape) for own, shape in zip(rows, shapes, strict=True)))
    assert complaint(task, sketch, values, seed % 1000, at_end=bool(rng.integers(2)), rows=rows) is None


def shapes_at_last(program: Program) -> list[tuple[int, ...]]:
    """The shapes of inputs and outputs. Rewrites of a sketch may have merged dimensions, so that no rows fit."""
    return [tensor.shape for tensor in (*program.dynamic_inputs, *map(program.tensors.__getitem__, program.outputs))]


@settings(WITHOUT_LIMITS, max_examples=40)
@given(anything, seeds)
def test_rows_of_arguments_of_random_programs(program: Program, seed: int) -> None:
    check(program, seed)


@pytest.mark.slow
@settings(WITHOUT_LIMITS, max_examples=1000)
@given(anything, seeds)
def test_rows_of_arguments_of_many_random_programs(program: Program, seed: int) -> None:
    check(program, seed)


WEIGHTS = ("W",)
PRODUCTS = {
    "a matrix product": ts.ops.matmul(m=37, n=48, k=64, constants=("B",)),
    "a product of bytes": ts.ops.matmul(m=37, n=48, k=64, dtype="i8", constants=("B",)),
    "a 1x1 convolution": ts.ops.conv2d(1, 32, 9, 10, 48, 1, layout="nhwc", constants=WEIGHTS),
    "a 3x3 convolution": ts.ops.conv2d(1, 32, 9, 10, 48, 3, padding=1, layout="nhwc", constants=WEIGHTS),
    "a depthwise convolution": ts.ops.depthwise_conv2d(1, 48, 9, 10, 3, padding=1, layout="nhwc", constants=WEIGHTS),
    "a layer norm": ts.ops.layer_norm(24, 96),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_by_all_sketches(name: str) -> None:
    program = PRODUCTS[name]
    task = Task.of(program, parse_target("host"), 2)
    arguments = [*program.dynamic_inputs, *(program.tensors[output] for output in program.outputs)]
    rows = tuple(PitchedRows(t.shape[-1], 3 * t.shape[-1]) if len(t.shape) > 1 else None for t in arguments)
    tried = 0
    for number, sketch in enumerate(task.sketches):
        values = random_config(task, sketch, np.random.default_rng(number))
        if values is not None:
            tried += 1
            assert complaint(task, sketch, values, 1, rows=rows) is None, sketch.title
    assert tried > 1


def test_strides() -> None:
    assert strides_of((3, 4, 5)) == (20, 5, 1)
    assert strides_of((3, 4, 5), PitchedRows(5, 8)) == (32, 8, 1)
    assert strides_of((3, 4, 5), PitchedRows(20, 32)) == (32, 5, 1)
    assert strides_of((3, 1, 5), PitchedRows(5, 8)) == (8, 8, 1)
    assert PitchedRows(5, 8).end(60) == 11 * 8 + 5
    assert (
        PitchedRows(5, 8).fit((3, 4, 5)) and not PitchedRows(10, 16).fit((3, 4, 5)) and not PitchedRows(5, 8).fit((60,))
    )


def test_rows_inside_of_a_dimension_are_refused() -> None:
    task = Task.of(ts.ops.matmul(m=8, n=6, k=4), parse_target("host"), 1)
    with pytest.raises(ScheduleError, match="begin inside of one of its dimensions"):
        build(task.program, UNSCHEDULED, {}, task.target, 1, rows=(None, None, PitchedRows(3, 16)))


def test_a_kernel_by_itself_takes_no_rows() -> None:
    task = Task.of(ts.ops.matmul(m=8, n=6, k=4), parse_target("host"), 1)
    artifact = build(task.program, UNSCHEDULED, {}, task.target, 1, rows=(None, None, PitchedRows(6, 16)))
    with pytest.raises(InternalError, match="lies in rows"):
        Kernel(artifact)
