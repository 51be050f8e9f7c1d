"""Sizes that leave one lane behind: the store of a narrow number writes that number, and nothing behind it."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith.codegen.pipeline import build
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.text.parse import parse

PAIRS = [
    ("f32", "bf16"), ("f32", "f16"), ("i32", "i16"), ("i32", "i8"), ("i32", "u8"), ("i64", "i32"), ("i64", "i8"),
    ("f64", "f32"), ("i32", "bool"), ("i16", "i8"),
]  # fmt: skip


def vectors(s: Schedule) -> None:
    """Whole vectors, written out, and one masked."""
    stage = s.stage(s.program.outputs[0])
    outer, inner = s.split(stage.axes[-1], s.choice("lanes", (4, 8, 16, 32), 16))
    s.unroll(outer)
    s.vectorize(inner)


@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize(("source", "narrow"), PAIRS)
def test_nothing_behind_the_last_lane_changes(source: str, narrow: str, lanes: int) -> None:
    size = 2 * lanes + 1
    text = f"input x: {source}[3, {size}]\ny[i: 3, j: {size}] = {narrow}(x[2 - i, j] + {source}(1))\nreturn y"
    task = Task.of(parse(text), parse_target("host"), 1)
    (sketch,) = trace(vectors, task.body)
    kernel = CpuDevice().load(build(task.program, sketch, {"lanes": lanes}, task.target, 1))
    inputs = random_inputs(task.program, 2)
    kind = task.program.tensors[task.program.outputs[0]].dtype
    memory = np.full((3 * size + 64) * kind.bytes, 0xA5, np.uint8)
    kernel.run([*inputs, memory[: 3 * size * kind.bytes].view(kind.numpy).reshape(3, size)])
    assert (memory[3 * size * kind.bytes :] == 0xA5).all()


def test_whole_vectors_are_stored_without_a_mask() -> None:
    """And narrowing is still part of the store, of the masked one too."""
    task = Task.of(
        parse("input x: f32[3, 33]\ny[i: 3, j: 33] = bf16(x[i, j])\nreturn y"), parse_target("x86:avx512"), 1
    )
    (sketch,) = trace(vectors, task.body)
    texts = build(task.program, sketch, {"lanes": 16}, task.target, 1, texts=True).texts
    assert texts["llvm"].count("call void @llvm.masked.store") == 1
    stores = [line for line in texts["asm"].splitlines() if "vpmovdw" in line and "(%r" in line]
    assert {"{%k" in line for line in stores} == {False, True}
