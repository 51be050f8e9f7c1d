"""Tensors that are read where one axis moves two of their indices, as in a[i, i + q]: scheduled like all others."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.gpu.candidates import EMULATOR, body_of, fault, sketches, some_configs
from helpers.pipeline.candidates import complaint, random_config
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.boxes import BoxAxis, box_axes
from tilesmith.schedules.schedule import Schedule
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

DIAGONALS = {
    "an input": "input a: f32[16, 24]\ns[i: 16] = sum[q: 8](a[i, i + q])\nreturn s",
    "an operand of a product": """
        input a: f32[33, 96]
        input w: f32[64, 32]
        s[i: 33, j: 32] = sum[q: 64](a[i, i + q] * w[q, j])
        return s""",
    "an operand that a stage makes": """
        input x: f32[67, 33]
        input w: f32[33, 62]
        a[i: 67, j: 33] = exp(x[i, j])
        s[i: 33, j: 30] = sum[q: 3](a[q + 2 * i, i] * w[i, j + i])
        return s""",
    "rows of a stage, with an epilogue": """
        input x: f32[37, 6, 36]
        a[i: 37, j: 6, k: 36] = exp(x[i, j, k])
        s[i: 3, j: 33] = max[q: 33](a[q + 2 * i, 2 * i + 1, j + i + 1])
        z[i: 3, j: 33] = exp(s[i, j])
        return z""",
}


@pytest.mark.parametrize("text", DIAGONALS.values(), ids=DIAGONALS.keys())
def test_all_sketches_of_processors_are_right(text: str) -> None:
    task, rng = Task.of(parse(text), parse_target("host"), 2), np.random.default_rng(0)
    assert len(task.sketches) > 1
    for sketch in task.sketches[:8]:
        values = random_config(task, sketch, rng)
        assert values is not None and complaint(task, sketch, values, 1) is None


@pytest.mark.parametrize("text", DIAGONALS.values(), ids=DIAGONALS.keys())
def test_sketches_of_gpus_are_right(text: str) -> None:
    body = body_of(parse(text))
    assert sketches(body)
    for sketch in sketches(body)[:2]:
        (values,) = some_configs(body, sketch, 1, 0)
        assert not fault(body, build(body, sketch, values, EMULATOR, 1))


def test_an_axis_moves_one_axis_of_a_box_and_the_other_is_whole() -> None:
    program = canonical(
        parse("""
        input x: f32[8, 12]
        a[i: 8, j: 12] = exp(x[i, j])
        y[i: 8, j: 4] = max[q: 3](a[i, i + q + 2])
        return y
    """)
    )
    schedule = Schedule(program)
    stage = schedule.compute_at("t0", schedule.stage("t1").loops[0])
    boxes = box_axes(schedule.tree, "t0", ("t1", schedule.stage("t1").loops[0].name))
    assert boxes == {"a0": BoxAxis((("a0", 1),), 0, 0), "a1": BoxAxis((), 0, 11)}
    assert [loop.name for loop in stage.loops] == ["t0.a0", "t0.a1"]
