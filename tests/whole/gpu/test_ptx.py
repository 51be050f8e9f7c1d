"""PTX for programs without a schedule and for simple ones: ptxas takes it for every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.gpu.assembler import PTXAS, assembled
from helpers.gpu.trees import matmul
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.language import MATHEMATICS
from tilesmith.tensor.program import Program
from tilesmith.tensor.rewrites.tiles.bf16_parts import bf16_products
from tilesmith.tensor.text.parse import parse

needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")
ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")

PROGRAMS = {
    "gelu": ops.gelu(1000),
    "softmax": ops.softmax(7, 33),
    "attention": ops.attention(2, 5, 9, 4),
    "layer_norm f16": ops.layer_norm(5, 13, dtype="f16"),
    "matmul bf16": ops.matmul_bias_relu(5, 6, 7, dtype="bf16"),
    "conv2d": ops.conv2d(1, 3, 6, 6, 4),
    "column max f64": ops.column_max(9, 10, dtype="f64"),
    "integers": parse(
        "input A: i32[9]\ninput B: i32[9]\nC[i: 9] = A[i] // B[i] + A[i] % B[i] * max(A[i], B[i])\nreturn C\n"
    ),
    "bools": parse("input A: bool[9]\ninput B: u8[9]\nC[i: 9] = select(A[i], B[i], 3)\nreturn C\n"),
    "table": parse("table T: f32[3] = [1, 2, 3]\ninput A: f32[9]\nC[i: 9] = A[i] * T[i % 3]\nreturn C\n"),
    "bf16_products": bf16_products(ops.matmul(5, 18, 35), "C", "i", "j", "k"),
}


@needs_ptxas
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_has_no_schedule_runs_in_one_thread(name: str, tmp_path: Path) -> None:
    artifact = build(normalised(PROGRAMS[name]), UNSCHEDULED, {}, parse_target("cuda:sm_80"), 1)
    assert artifact.format == "ptx"
    assert all(launch.grid == (1,) and launch.block == (1,) for launch in artifact.launches)
    assert len(assembled(artifact, "sm_80", tmp_path)) == len(artifact.launches)


@needs_ptxas
@pytest.mark.parametrize("function", MATHEMATICS)
def test_every_function_of_mathematics_lowers(function: str, tmp_path: Path) -> None:
    dtypes = ("f64", "f32", "f16", "bf16")
    inputs = "".join(f"input A{d}: {d}[8]\n" for d in dtypes)
    arguments = {d: ", ".join([f"A{d}[i]"] * MATHEMATICS[function].arity) for d in dtypes}
    results = "".join(f"B{d}[i: 8] = {function}({arguments[d]})\n" for d in dtypes)
    program = parse(f"{inputs}{results}return {', '.join(f'B{d}' for d in dtypes)}\n")
    artifact = build(normalised(program), UNSCHEDULED, {}, parse_target("cuda:sm_80"), 1)
    assert len(assembled(artifact, "sm_80", tmp_path)) == 4


def blocks_of_threads(s: Schedule) -> None:
    (loop,) = s.stage("t0").axes
    block, items, thread, lanes = s.split(loop, 2, 128, 4)
    s.bind("block", 0, block)
    s.unroll(items)
    s.bind("thread", 0, thread)
    s.vectorize(lanes)


def square(size: int) -> Program:
    return normalised(parse(f"input A: f32[{size}]\nB[i: {size}] = A[i] * A[i] + 1\nreturn B\n"))


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_takes_it(architecture: str, tmp_path: Path) -> None:
    program = square(4001)
    (sketch,) = trace(blocks_of_threads, program)
    artifact = build(program, sketch, {}, parse_target(f"cuda:{architecture}"), 1)
    (launch,) = artifact.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == ((4,), (128,), 0)
    (kernel,) = assembled(artifact, architecture, tmp_path)
    assert (kernel.stack, kernel.spills) == (0, 0)


def test_threads_load_and_store_128_bits() -> None:
    program = square(8192)
    (sketch,) = trace(blocks_of_threads, program)
    text = build(program, sketch, {}, parse_target("cuda:sm_90a"), 1).code.decode()
    assert text.count("ld.global.nc.v4.b32") == text.count("st.global.v4.b32") == 2
    assert "ld.global.nc.b32" not in text
    assert ".maxntid 128" in text


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tile_of_a_matmul_stays_in_registers(architecture: str, tmp_path: Path) -> None:
    program = normalised(ops.matmul_bias_relu(1024, 1024, 1024))
    sketch = trace(matmul(stages=3, swizzle=1, rows=8), program)[0]
    artifact = build(program, sketch, {}, parse_target(f"cuda:{architecture}"), 1)
    (kernel,) = assembled(artifact, architecture, tmp_path)
    assert (kernel.stack, kernel.spills) == (0, 0)
    assert kernel.registers <= 168
    text = artifact.code.decode()
    assert text.count("cp.async.cg.shared.global") == 6  # two copies, twice ahead and once in the loop
    assert text.count("bar.sync") == 1
    assert "ld.shared.b32" not in text
    assert artifact.launches[0].shared_bytes == 3 * (128 * 8 + 8 * 128) * 4


@needs_ptxas
@pytest.mark.parametrize(("architecture", "staged"), [("sm_75", 0), ("sm_80", 1), ("sm_90a", 1)])
def test_copies_through_registers_need_one_barrier_a_trip(architecture: str, staged: int, tmp_path: Path) -> None:
    program = normalised(ops.matmul_bias_relu(1024, 1024, 1024))
    sketch = trace(matmul(stages=2, swizzle=1, rows=8, staged=staged), program)[0]
    artifact = build(program, sketch, {}, parse_target(f"cuda:{architecture}"), 1)
    (kernel,) = assembled(artifact, architecture, tmp_path)
    assert (kernel.stack, kernel.spills) == (0, 0)
    text = artifact.code.decode()
    assert "cp.async" not in text
    assert text.count("bar.sync") == 1
    before, work, after = text.partition("bar.sync")[0], *text.partition("bar.sync")[2].split("st.shared.v4", 1)
    assert before.count("ld.global.nc.v4") == 4  # two copies, ahead of the loop and in front of a trip's work
    assert "fma.rn" in work and "ld.global" not in work
    assert after.count("st.shared.v4") == 1
    assert artifact.launches[0].shared_bytes == 2 * (128 * 8 + 8 * 128) * 4


@needs_ptxas
def test_copies_too_narrow_for_asynchronous_ones_go_through_registers(tmp_path: Path) -> None:
    program = normalised(ops.matmul(256, 256, 256, dtype="f16"))
    for lanes, asynchronous in ((4, True), (1, False)):
        sketch = trace(matmul(stages=2, rows=8, lanes=lanes), program)[0]
        artifact = build(program, sketch, {}, parse_target("cuda:sm_80"), 1)
        (kernel,) = assembled(artifact, "sm_80", tmp_path)
        assert (kernel.stack, kernel.spills) == (0, 0)
        text = artifact.code.decode()
        assert text.count("bar.sync") == 1
        assert ("cp.async" in text) == asynchronous
