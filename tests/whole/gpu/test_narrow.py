"""Kernels for GPUs of operators over narrow floats, in the emulator: they accumulate in float32 and round once, too."""

from __future__ import annotations

import numpy as np
import pytest
from whole.operators.test_narrow import DATA, FIRST, complaints, drawn

from helpers.gpu.candidates import EMULATORS
from helpers.operators.arithmetic import from_memory
from helpers.pipeline.candidates import random_config
from tilesmith.codegen.pipeline import build
from tilesmith.runtime.devices.emulator import emulator
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target

NAMES = ("row_sum", "variance", "cumsum", "softmax", "layer_norm", "gelu", "exp2", "log_sum_exp")


@pytest.mark.parametrize("target", EMULATORS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_kernels_round_once(name: str, dtype: str, target: str) -> None:
    case = FIRST[name]
    program = case.program(dtype=dtype)
    task = Task.of(program, parse_target(target), 1)
    device, kind = emulator(seed=1), program.tensors[program.outputs[0]].dtype
    inputs = drawn(program, *DATA["offset"])
    for sketch in task.sketches[1:3]:
        values = random_config(task, sketch, np.random.default_rng(1))
        assert values is not None
        loaded = device.load(build(task.program, sketch, values, task.target, 1))
        output = device.empty(program.tensors[program.outputs[0]].shape, kind.numpy)
        loaded.prepare([])
        loaded.run([*map(device.upload, inputs), output])
        assert not complaints(case, dtype, inputs, (from_memory(output.numpy(), kind),)), sketch.title
