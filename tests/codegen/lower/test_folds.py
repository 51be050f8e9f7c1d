"""Folds run: any order of state, several tensors of one rank, trailing axes dropped, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.codegen.pipeline import build
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.registry import apply_rewrite
from tilesmith.tensor.text.parse import parse


def ran(program: Program, threads: int = 1) -> tuple[list[np.ndarray], tuple[np.ndarray, ...]]:
    task = Task.of(program, parse_target("host"), threads)
    inputs = random_inputs(task.program, seed=3)
    outputs = [np.full(task.program.tensors[name].shape, np.nan, np.float32) for name in task.program.outputs]
    kernel = CpuDevice().load(build(task.program, UNSCHEDULED, {}, task.target, threads))
    kernel.run([*inputs, *outputs])
    return outputs, evaluate(task.program, inputs)


def test_one_pass_attention_is_attention() -> None:
    program = ops.attention(heads=2, queries=5, keys=9, width=4)
    folded = apply_rewrite(program, "online_softmax", {"stage": "P_max"})
    assert any(stage.fold for stage in folded.stages)
    (found,), (wanted,) = ran(folded)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


CUMULATIVE = """
input x: f32[3, 7]
fold[j: 7] {
    total[i: 3]: f32 = 0
    largest[i: 3]: f32 = -inf
    swapped[i: 3]: f32 = 1
    total = total[i] + x[i, j]
    largest = max(largest[i], x[i, j])
    swapped = total[i] - swapped[i]
}
return total, largest, swapped
"""


def test_state_of_one_rank_is_updated_together() -> None:
    """`swapped` reads the total from before the step, although `total` is written first."""
    found, wanted = ran(parse(CUMULATIVE))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


RANKS = """
input x: f32[2, 6]
input y: f32[6, 5]
fold[k: 6] {
    outer[i: 2]: f32 = 0
    inner[i: 2, j: 5]: f32 = 1
    inner = inner[i, j] * 0.5 + outer[i] * y[k, j]
    outer = outer[i] + x[i, k]
}
return inner, outer
"""


@pytest.mark.parametrize("text", [RANKS])
def test_longer_state_reads_the_old_values_of_shorter_state(text: str) -> None:
    found, wanted = ran(parse(text))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
