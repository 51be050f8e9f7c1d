"""What follows a product is done on the sums while they are in registers: no memory of the product's size in between."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import complaint, random_config
from tilesmith.codegen.ir.loop_ir import Allocate, LoopProgram, Scope, statements
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
ROWS, COLUMNS = 37, 70
PRODUCT = f"""
input A: f32[{ROWS}, 45]
{{}} B: f32[45, {COLUMNS}]
input bias: f32[{COLUMNS}]
input R: f32[{ROWS}, {COLUMNS}]
C[i: {ROWS}, j: {COLUMNS}] = sum[k: 45](A[i, k] * B[k, j])
D[i: {ROWS}, j: {COLUMNS}] = max(C[i, j] + bias[j], 0)
E[i: {ROWS}, j: {COLUMNS}] = D[i, j] + R[i, j]
F[i: {ROWS}, j: {COLUMNS}] = E[i, j] * 0.125
G[i: {ROWS}, j: {COLUMNS}] = f16(F[i, j])
return G
"""


def in_one(kind: str) -> tuple[Task, list[Sketch]]:
    """The task, and the sketches with vectors that sum over the whole depth at once."""
    task = Task.of(parse(PRODUCT.format(kind)), HOST, 2)
    return task, [s for s in task.sketches[1:] if "tensorize(" not in s.text and "block depth=true" not in s.title]


def held(loops: LoopProgram) -> list[tuple[str, Scope, int]]:
    """(name, where, elements) of all that is neither an argument nor made of constants beforehand."""
    made = [s.buffer for nest in loops.nests for s in statements(nest.body) if isinstance(s, Allocate)]
    buffers = [*made, *(b for b in loops.globals if b.scope is Scope.WORKSPACE)]
    return [(b.name, b.scope, int(np.prod(b.shape))) for b in buffers]


@pytest.mark.parametrize("kind", ["input", "constant"])
def test_sums_stay_in_registers(kind: str) -> None:
    task, sketches = in_one(kind)
    assert len(sketches) >= 4
    (anchor,) = [stage.name for stage in task.body.stages if stage.combiner == "sum"]
    rng = np.random.default_rng(1)
    for sketch in sketches:
        values = random_config(task, sketch, rng)
        assert values is not None, sketch.title
        loops = loop_ir(sketch.apply(task.body, HOST, values), HOST)
        assert len(loops.nests) == 1, sketch.title
        found = held(loops)
        sums = [(where, size) for name, where, size in found if name == anchor or name.startswith(f"{anchor}_")]
        assert len(sums) >= 2, "the accumulators, and the tile of which the epilogue reads them"
        assert all(where is Scope.REGISTER and size < ROWS * COLUMNS for where, size in sums), sketch.title
        others = {name for name, where, _ in found if where is not Scope.REGISTER}
        assert all(name.startswith("copy") for name in others), f"{sketch.title}: {others}"


def test_results_are_right() -> None:
    task, sketches = in_one("constant")
    rng = np.random.default_rng(2)
    for number, sketch in enumerate(sketches[:4]):
        values = random_config(task, sketch, rng)
        assert values is not None, sketch.title
        assert complaint(task, sketch, values, number, at_end=bool(number % 2)) is None, f"{sketch.title} {values}"
