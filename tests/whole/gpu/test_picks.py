"""What the analytic model takes without any trial, assembled: it fits, nothing spills, products use no local memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.gpu.assembler import PTXAS, assembled
from helpers.gpu.candidates import body_of, picked
from tilesmith.codegen.pipeline import build
from tilesmith.cost_model.gpu.launch import launches
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

pytestmark = pytest.mark.usefixtures("whole_drafts")
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")

FEW: dict[str, Program] = {
    "matmul": ops.matmul(4096, 4096, 4096),
    "softmax": ops.softmax(16384, 4096),
    "transpose": ops.transpose(16384, 16384),
}
MORE: dict[str, Program] = {
    "matmul odd": ops.matmul(1009, 1013, 1007),
    "epilogue": ops.matmul_bias_gelu(4096, 4096, 1024),
    "layer norm": ops.layer_norm(16384, 4096),
    "row sum": ops.row_sum(16384, 4096),
    "column sum": ops.column_sum(16384, 4096),
    "points": ops.gelu(1 << 26),
    "total": ops.total(1 << 26),
    "batch": ops.batch_matmul(16, 512, 512, 64),
    "windows": ops.conv2d(32, 64, 56, 56, 64, padding=1),
}


def fits(program: Program, architecture: str, folder: Path) -> None:
    """The pick of a program assembles, and all that its threads hold is in registers."""
    body, target = body_of(program), parse_target(f"cuda:{architecture}")
    sketch, values = picked(body, target)
    for kernel in assembled(build(body, sketch, values, target, 1), architecture, folder):
        assert kernel.spills == 0, (sketch.title, values, kernel)
        assert kernel.stack == 0, (sketch.title, values, kernel)
        assert kernel.registers <= 255


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("name", sorted(FEW))
def test_what_the_model_takes_stays_in_registers(name: str, architecture: str, tmp_path: Path) -> None:
    fits(FEW[name], architecture, tmp_path)


@needs_ptxas
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("name", sorted(MORE))
def test_what_the_model_takes_of_more_programs_stays_in_registers(name: str, architecture: str, tmp_path: Path) -> None:
    fits(MORE[name], architecture, tmp_path)


@pytest.mark.parametrize("size", [512, 1024, 2048, 4096])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_steps_divide_the_depth_and_no_block_is_empty(architecture: str, size: int) -> None:
    body, target = body_of(ops.matmul(size, size, size)), parse_target(f"cuda:{architecture}")
    sketch, values = picked(body, target)
    tree = sketch.apply(body, target, values)
    for launch in launches(tree, target):
        assert launch.grid == launch.blocks
    depth = [steps for name, steps in values.items() if name.endswith((".steps", ".terms"))]
    if depth:
        assert size % int(np.prod(depth)) == 0, values


@needs_ptxas
def test_the_pick_for_a_large_product_is_a_large_tile_whose_inner_loop_multiplies(tmp_path: Path) -> None:
    body, target = body_of(FEW["matmul"]), parse_target("cuda:sm_90a")
    sketch, values = picked(body, target)
    artifact = build(body, sketch, values, target, 1)
    (launch,) = artifact.launches
    points = 4096 * 4096 / launch.grid[0]
    assert 64 * 64 <= points <= 256 * 256
    assert launch.block[0] >= 64
    ptx = artifact.code.decode()
    assert ptx.count("fma.rn.f32") > 8 * ptx.count("ld.shared.v4")
    assert ptx.count("ld.shared.v4") > 0
