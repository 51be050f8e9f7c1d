"""What the model says that a kernel takes, beside what ptxas allots and the launch asks for: of picks, and at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import pytest

from helpers.gpu.assembler import PTXAS, assembled
from helpers.gpu.candidates import Config, body_of, drawn, picked, sketches
from tilesmith.codegen.pipeline import build
from tilesmith.cost_model.gpu.launch import launches, resident_blocks
from tilesmith.cost_model.gpu.registers import registers_at_most
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import config
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")

PROGRAMS: dict[str, Callable[[], Program]] = {
    "matmul": lambda: ops.matmul(1024, 1024, 1024),
    "matmul odd": lambda: ops.matmul(1009, 1013, 1007),
    "matmul thin": lambda: ops.matmul(16, 4096, 4096),
    "matmul bf16": lambda: ops.matmul(1024, 1024, 1024, dtype="bf16"),
    "epilogue": lambda: ops.matmul_bias_gelu(4096, 4096, 1024),
    "batch": lambda: ops.batch_matmul(16, 512, 512, 64),
    "windows": lambda: ops.conv2d(32, 64, 56, 56, 64, padding=1),
    "row sum": lambda: ops.row_sum(16384, 4096),
    "short rows": lambda: ops.row_sum(1 << 16, 48),
    "column sum": lambda: ops.column_sum(16384, 4096),
    "total": lambda: ops.total(1 << 26),
    "softmax": lambda: ops.softmax(16384, 4096),
    "layer norm": lambda: ops.layer_norm(16384, 4096),
    "transpose": lambda: ops.transpose(16384, 16384),
    "attention": lambda: ops.attention(heads=8, queries=512, keys=512, width=64),
    "gelu": lambda: ops.gelu(1 << 26),
    "add": lambda: ops.add(1 << 24),
    "max pool": lambda: ops.max_pool2d(n=8, c=64, h=56, w=56),
    "argmax": lambda: ops.argmax(shape=[4096, 1000]),
}
FEW = ("matmul", "row sum", "column sum", "softmax", "transpose", "add", "windows")
# As shares of the truth: the median error of registers; what is far too low, and how many may be.
MEDIAN_OF_PICKS, MEDIAN_AT_RANDOM = 0.15, 0.20
TOO_LOW, SELDOM = 0.75, 0.15


@dataclass(frozen=True)
class Compared:
    """One launch: what the model says, then the truth, of registers, blocks a multiprocessor holds, and what is exact."""

    name: str
    registers: tuple[float, int]
    resident: tuple[int, int]
    exact: tuple[tuple[int, int, int], tuple[int, int, int]]  # shared memory, threads, blocks
    spills: int
    pressure: float

    @property
    def ratio(self) -> float:
        return self.registers[0] / self.registers[1]


def compared(
    name: str, body: Program, sketch: Sketch, values: Config, target: Target, folder: Path
) -> Iterator[Compared]:
    artifact = build(body, sketch, values, target, 1)
    kernels = {kernel.kernel: kernel for kernel in assembled(artifact, target.level, folder)}
    assert target.isa.gpu is not None
    found = launches(sketch.apply(body, target, values), target)
    for said, launch in zip(found, artifact.launches, strict=True):
        truth, threads = kernels[launch.symbol], prod(launch.block)
        resident = resident_blocks(target.isa.gpu, float(threads), float(truth.registers), float(launch.shared_bytes))
        yield Compared(
            name, (_one(said.registers), truth.registers), (int(_one(said.resident)), int(resident)),
            ((int(_one(said.shared_bytes)), int(_one(said.width)), int(_one(said.grid))),
             (launch.shared_bytes, threads, prod(launch.grid))),
            truth.spills, _one(said.pressure),
        )  # fmt: skip


def _one(value: object) -> float:
    return float(np.asarray(value).reshape(-1)[0])


def at_random(name: str, target: Target, count: int, seed: int, folder: Path) -> Iterator[Compared]:
    """Random valid candidates of each sketch of a program."""
    body = body_of(PROGRAMS[name]())
    for sketch in sketches(body)[:4]:
        choices, _ = drawn(body, sketch, target, seed)
        for row in choices[:count]:
            yield from compared(name, body, sketch, config(sketch.config_space(body, target), row), target, folder)


def holds(found: list[Compared], median: float) -> None:
    ratios = np.array([one.ratio for one in found])
    assert not [one for one in found if one.exact[0] != one.exact[1]]
    assert np.median(np.abs(ratios - 1)) <= median, sorted(zip(ratios, found, strict=True), key=lambda x: x[0])
    assert np.mean(ratios < TOO_LOW) <= SELDOM, [one for one in found if one.ratio < TOO_LOW]


@needs_ptxas
def test_a_few_picks_and_candidates_take_what_is_said(tmp_path: Path) -> None:
    target = parse_target("cuda:sm_90a")
    picks = []
    for name in FEW:
        body = body_of(PROGRAMS[name]())
        picks += list(compared(name, body, *picked(body, target), target, tmp_path))
    holds(picks, MEDIAN_OF_PICKS)
    assert not [one for one in picks if one.spills or one.ratio < TOO_LOW]
    random = [one for name in ("row sum", "softmax", "column sum") for one in at_random(name, target, 2, 5, tmp_path)]
    holds(random, MEDIAN_AT_RANDOM)


@needs_ptxas
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_picks_take_what_is_said(architecture: str, tmp_path: Path) -> None:
    target = parse_target(f"cuda:{architecture}")
    found = []
    for name, make in PROGRAMS.items():
        body = body_of(make())
        found += list(compared(name, body, *picked(body, target), target, tmp_path))
    holds(found, MEDIAN_OF_PICKS)
    assert not [one for one in found if one.spills or one.ratio < TOO_LOW]
    off = [one for one in found if not 0.6 <= (one.resident[0] + 1) / (one.resident[1] + 1) <= 1.6]
    assert len(off) <= 1, off


@needs_ptxas
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_random_candidates_take_what_is_said(architecture: str, tmp_path: Path) -> None:
    target = parse_target(f"cuda:{architecture}")
    found = [one for name in PROGRAMS for one in at_random(name, target, 2, 11, tmp_path)]
    holds(found, MEDIAN_AT_RANDOM)


@pytest.mark.parametrize(("threads", "most"), [
    (32, 255), (256, 255), (288, 168), (480, 128), (512, 128), (576, 96), (768, 80), (1024, 64),
])  # fmt: skip
def test_what_a_thread_can_have(threads: int, most: int) -> None:
    assert registers_at_most(float(threads), parse_target("cuda:sm_90a").gpu) == most
