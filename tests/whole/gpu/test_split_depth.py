"""A product of small matrices with a long depth: parts of the depth in blocks of their own, added by a second launch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.gpu.assembler import PTXAS, assembled
from helpers.gpu.candidates import EMULATOR, body_of, drawn, fault, sketches, some_configs
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import config
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program


def split(body: Program) -> list[Sketch]:
    """The sketches that split the depth, each of which copies tiles to shared memory."""
    return [sketch for sketch in sketches(body) if any(rewrite.name == "split_k" for rewrite in sketch.rewrites)]


@pytest.mark.parametrize(
    "program", [ops.matmul(16, 16, 2048), ops.matmul(13, 9, 1103), ops.matmul(16, 24, 4099, dtype="f64")], ids=str
)
def test_parts_are_made_by_blocks_and_added_by_a_second_launch(program: Program) -> None:
    body = body_of(program)
    found = split(body)
    assert found
    for number, sketch in enumerate(found):
        parts = int(dict(sketch.variants)["split t0"])
        for values in some_configs(body, sketch, 2, seed=number):
            artifact = build(body, sketch, values, EMULATOR, 1)
            first, second = artifact.launches
            assert first.grid[0] % parts == 0 and first.shared_bytes > 0, (sketch.title, values)
            assert second.shared_bytes == 0
            assert fault(body, artifact, seed=number) == "", (sketch.title, values)


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")
def test_what_the_model_would_take_assembles_without_spills(tmp_path: Path) -> None:
    body = body_of(ops.matmul(64, 64, 65536))
    sketch = split(body)[0]
    target = parse_target("cuda:sm_80")
    choices, seconds = drawn(body, sketch, target, seed=1)
    values = config(sketch.config_space(body, target), choices[int(np.argmin(seconds))])
    kernels = assembled(build(body, sketch, values, target, 1), "sm_80", tmp_path)
    assert len(kernels) == 2
    assert all((kernel.stack, kernel.spills) == (0, 0) for kernel in kernels)
