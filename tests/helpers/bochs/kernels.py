"""Runs the artifacts of processors that this machine is not: x86 with tiles, or with any vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from helpers.bochs.machine import Fault, Machine, Region
from helpers.bochs.objects import link
from tilesmith.codegen.artifact import Artifact, BufferSpec
from tilesmith.schedules.task import Task
from tilesmith.tensor.dtype import DTYPES

Array = NDArray[np.generic]
_ALIGNED = 64  # of memory that a kernel keeps
_POISON = 0xA5


class _Placed:
    """An array in a machine: at the end of its pages or at their start; what else the pages hold must not change."""

    def __init__(self, machine: Machine, name: str, size: int, at_end: bool, align: int) -> None:
        self.region: Region = machine.region(name, size)
        self.region.memory[:] = _POISON
        self.size = size
        self.start = (len(self.region.memory) - size) // align * align if at_end else 0
        self.address = self.region.address + self.start

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """What it holds."""
        return self.region.memory[self.start : self.start + self.size]

    def check(self) -> None:
        """Fault: something beside it was written."""
        around = np.concatenate([self.region.memory[: self.start], self.region.memory[self.start + self.size :]])
        if np.any(around != _POISON):
            raise Fault(f"memory beside {self.region.name} was written")


def run(artifact: Artifact, task: Task, inputs: Sequence[Array], at_end: bool) -> list[Array]:
    """The outputs, as `helpers.pipeline.candidates.run`. Fault: what the kernel did that it may not."""
    given = {d.tensor.name: np.ascontiguousarray(a) for d, a in zip(task.program.inputs, inputs, strict=True)}
    return emulate(artifact, given, at_end)


def emulate(artifact: Artifact, given: dict[str, Array], at_end: bool = True) -> list[Array]:
    """The outputs for inputs and constants by their names. Every array, and what the kernel keeps, has nothing around it."""
    with Machine() as machine:
        symbols = link(machine, (artifact.code, *artifact.parts))

        def kept(name: str, size: int) -> _Placed:
            return _Placed(machine, name, -(-size // _ALIGNED) * _ALIGNED, at_end, _ALIGNED)

        def placed(spec: BufferSpec) -> _Placed:
            dtype = DTYPES[spec.dtype].numpy
            return _Placed(machine, spec.name, spec.elements * dtype.itemsize, at_end, dtype.itemsize)

        prepared = kept("prepared", artifact.prepared_bytes + artifact.preparing_bytes)
        workspace = kept("workspace", artifact.workspace_bytes)
        arrays = [placed(spec) for spec in (*artifact.inputs, *artifact.constants, *artifact.outputs)]
        names = [spec.name for spec in (*artifact.inputs, *artifact.constants)]
        for array, name in zip(arrays, names, strict=False):
            array.bytes[:] = given[name].reshape(-1).view(np.uint8)
        block = machine.region("arguments", 8 * len(arrays), writable=False)
        addresses = np.array([array.address for array in arrays], np.uint64)
        block.memory.view(np.uint64)[: len(addresses)] = addresses
        pointers = block.address, prepared.address, workspace.address
        before = [array.bytes.copy() for array in arrays[: len(names)]]
        if artifact.prepared_bytes:
            machine.call(symbols[f"{artifact.symbol}_prepare"], *pointers)
        held = [number in artifact.held for number in range(len(artifact.constants))]
        for number, is_held in enumerate(held, len(artifact.inputs)):
            if not is_held:
                block.memory.view(np.uint64)[number] = 0
        machine.call(symbols[artifact.symbol], *pointers)
        for array in (*arrays, prepared, workspace):
            array.check()
        for array, old in zip(arrays, before, strict=False):
            if np.any(array.bytes != old):
                raise Fault(f"the input {array.region.name} was written")
        return [
            array.bytes.view(DTYPES[spec.dtype].numpy).reshape(spec.shape).copy()
            for array, spec in zip(arrays[len(names) :], artifact.outputs, strict=True)
        ]
