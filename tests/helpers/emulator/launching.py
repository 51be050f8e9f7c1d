"""Runs hand-written kernels in the emulator."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesmith.codegen.artifact import Artifact, BufferSpec, Launch
from tilesmith.codegen.backends.cpu import Compiled
from tilesmith.codegen.emulator.kernels import compile_emulated
from tilesmith.runtime.devices.emulator import emulator
from tilesmith.targets.target import Target, parse_target

Array = NDArray[Any]
EMULATOR = parse_target("cuda:emulator")


@cache
def code_of(ir: str, target: Target = EMULATOR) -> bytes:
    return compiled(ir, target).code


def compiled(ir: str, target: Target = EMULATOR) -> Compiled:
    return compile_emulated(ir, target.emission, [name_of(ir)])


def name_of(ir: str) -> str:
    """The name of the only kernel of a text."""
    return ir.split("_kernel void @")[1].split("(", maxsplit=1)[0]


def artifact(
    ir: str,
    inputs: list[Array],
    outputs: list[Array],
    grid: int,
    block: int,
    shared: int,
    workspace: int = 0,
    target: Target = EMULATOR,
) -> Artifact:
    """An artifact with one launch of the kernel in `ir`; its inputs are x0, x1, ..., its outputs y0, ..."""
    names = {np.dtype("f4"): "f32", np.dtype("i4"): "i32"}
    name = name_of(ir)

    def specs(letter: str, arrays: list[Array]) -> tuple[BufferSpec, ...]:
        return tuple(BufferSpec(f"{letter}{n}", names[a.dtype], a.shape) for n, a in enumerate(arrays))

    return Artifact(
        name=name, target=target.text, threads=1, format="emulated", code=code_of(ir, target), symbol=name,
        inputs=specs("x", inputs), constants=(), outputs=specs("y", outputs), prepared_bytes=0,
        workspace_bytes=workspace, launches=(Launch(name, (grid,), (block,), shared),),
    )  # fmt: skip


def run(
    ir: str,
    inputs: list[Array],
    output: Array,
    grid: int,
    block: int,
    shared: int = 0,
    seed: int = 1,
    workspace: int = 0,
    target: Target = EMULATOR,
) -> Array:
    """The output of one run; `output` gives its shape and dtype, and what it holds before."""
    device = emulator(seed)
    kernel = device.load(artifact(ir, inputs, [output], grid, block, shared, workspace, target))
    arrays = [device.upload(array) for array in (*inputs, output)]
    kernel.run(arrays)
    return arrays[-1].numpy()
