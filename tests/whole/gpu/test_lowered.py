"""GPU schedules against the oracle: the emulator runs the very code that becomes PTX or an object, and checks every access."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.gpu.candidates import EMULATORS
from helpers.gpu.running import agrees_with_the_oracle
from helpers.gpu.trees import (
    Template,
    columns_by_threads,
    matmul,
    one_thread_of_many,
    pointwise,
    private,
    rows_by_blocks,
    rows_by_warps,
    softmax,
    transpose,
)
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.schedule import trace
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.oracle.random_inputs import random_array
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse


def agrees(program: Program, template: Template | None, target: str) -> None:
    """The outputs on the emulator are those of the oracle."""
    program = normalised(program)
    sketch = UNSCHEDULED if template is None else trace(template, program)[0]
    artifact = build(program, sketch, {}, parse_target(target), 1)
    generator = np.random.default_rng(0)
    given = [np.asarray(random_array(d.tensor.shape, d.tensor.dtype, generator)) for d in program.inputs]
    agrees_with_the_oracle(program, artifact, given, 8)


CASES: dict[str, tuple[Program, Template | None]] = {
    "no schedule": (ops.layer_norm(3, 17), None),
    "pointwise": (ops.gelu(515), pointwise),
    "pointwise f16": (ops.add(size=515, dtype="f16"), pointwise),
    "rows by blocks": (ops.row_sum(3, 301), rows_by_blocks),
    "rows by warps": (ops.row_max(6, 301), rows_by_warps),
    "rows by warps f64": (ops.row_sum(6, 301, dtype="f64"), rows_by_warps),
    "columns": (ops.column_sum(29, 45), columns_by_threads),
    "columns bf16": (ops.column_max(29, 45, dtype="bf16"), columns_by_threads),
    "softmax": (ops.softmax(3, 301), softmax),
    "matmul": (ops.matmul(65, 131, 19), matmul()),
    "matmul in stages": (ops.matmul(65, 140, 32), matmul(stages=3, swizzle=1)),
    "matmul through registers": (ops.matmul(65, 131, 19), matmul(stages=2, swizzle=1, staged=1)),
    "matmul through registers f16": (ops.matmul_bias_relu(64, 140, 32, dtype="f16"), matmul(stages=2, pad=4, staged=1)),
    "matmul through registers i8": (ops.matmul(65, 131, 19, dtype="i8"), matmul(stages=3, staged=1)),
    "matmul in narrow copies": (ops.matmul(65, 131, 19, dtype="f16"), matmul(stages=2, staged=0, lanes=1)),
    "matmul with epilogue": (ops.matmul_bias_relu(64, 132, 18), matmul(stages=2, pad=4)),
    "matmul f16": (ops.matmul_bias_relu(64, 130, 18, dtype="f16"), matmul(stages=2)),
    "transpose": (ops.transpose(35, 47), transpose),
    "private": (ops.softmax(40, 7), private),
    "one thread of many": (ops.softmax(3, 70), one_thread_of_many),
    "constants": (ops.matmul_bias_relu(9, 6, 5, constants=("B", "bias")), None),
    "indices as numbers": (parse("input A: i64[515]\nB[i: 515] = A[i] + i * 4294967296\nreturn B\n"), pointwise),
}


@pytest.mark.parametrize("target", EMULATORS)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_oracle(name: str, target: str) -> None:
    agrees(*CASES[name], target)
