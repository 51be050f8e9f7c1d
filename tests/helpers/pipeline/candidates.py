"""Candidates the whole way: text, sketch and config become machine code, which runs beside guard pages and meets the oracle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from tilesmith.codegen.artifact import Artifact, BufferSpec
from tilesmith.codegen.pipeline import build
from tilesmith.codegen.rows import ArgumentRows
from tilesmith.measure.checking.verify import Checker
from tilesmith.runtime.devices.cpu.device import CpuDevice, CpuKernel
from tilesmith.runtime.guard import guarded_array
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.space import ConfigValue, config
from tilesmith.schedules.task import Task
from tilesmith.tensor.oracle.random_inputs import random_inputs

Array = NDArray[np.generic]
Runner = Callable[[Artifact, Task, Sequence[Array], bool], list[Array]]
DRAWN = 64
POISON = 0xA5
_LINKED: deque[tuple[Artifact, CpuKernel]] = deque(maxlen=4)


def random_config(task: Task, sketch: Sketch, rng: np.random.Generator) -> dict[str, ConfigValue] | None:
    """A valid config of a sketch, or None if none of some dozens of drawn ones is. Small values come more often."""
    config_space = sketch.config_space(task.body, task.target)
    sizes = [len(p.values) for p in config_space.parameters]
    drawn = rng.integers(0, sizes, size=(2, DRAWN, len(sizes))).min(axis=0).astype(np.int32)
    good = np.flatnonzero(valid(sketch.apply_population(task.body, task.target, config_space, drawn), DRAWN))
    return dict(config(config_space, drawn[good[0]])) if len(good) else None


def complaint(
    task: Task, sketch: Sketch, values: dict[str, ConfigValue], seed: int, at_end: bool = True,
    inputs: Sequence[Array] | None = None, runner: Runner | None = None, rows: ArgumentRows = (),
) -> str | None:  # fmt: skip
    """What is wrong with the outputs of a candidate, or None. Touching a guard page ends the process.

    Inputs are random unless given. `runner`: runs the artifact elsewhere than on this machine. `rows`: see `build`.
    """
    artifact = build(task.program, sketch, values, task.target, task.threads, rows=rows)
    inputs = random_inputs(task.program, seed) if inputs is None else inputs
    return Checker(task.program, inputs, seed).check((runner or run)(artifact, task, inputs, at_end))


def run(artifact: Artifact, task: Task, inputs: Sequence[Array], at_end: bool) -> list[Array]:
    """The outputs; every argument lies beside a guard page, and the outputs are poisoned first.

    So are elements between rows, which nobody may write: AssertionError.
    """
    kernel = _loaded(artifact)
    values = {d.tensor.name: array for d, array in zip(task.program.inputs, inputs, strict=True)}
    placed = {
        spec.name: _Placed(spec, values[spec.name].dtype, at_end) for spec in (*artifact.inputs, *artifact.constants)
    }
    for name, one in placed.items():
        one.write(values[name])
    kernel.prepare([placed[spec.name].memory for spec in artifact.constants])
    outputs = [_Placed(spec, task.program.tensors[spec.name].dtype.numpy, at_end) for spec in artifact.outputs]
    kernel.run([*(placed[spec.name].memory for spec in artifact.inputs), *(one.memory for one in outputs)])
    found = [one.read() for one in outputs]
    assert not any(one.changed_between_rows() for one in outputs), "elements between rows have changed"
    return found


class _Placed:
    """An argument beside a guard page. `memory`: all of it, elements between rows among them."""

    def __init__(self, spec: BufferSpec, dtype: DTypeLike, at_end: bool) -> None:
        self.shape, rows = spec.shape, spec.rows
        self.memory = guarded_array(spec.shape if rows is None else (rows.end(spec.elements),), dtype, at_end)
        self.memory.reshape(-1).view(np.uint8).fill(POISON)
        self.lines = self.memory.reshape(1, -1)
        if rows is not None:
            size = self.memory.itemsize
            self.lines = as_strided(self.memory, (spec.elements // rows.length, rows.length), (rows.pitch * size, size))

    def write(self, values: Array) -> None:
        """Puts values where the elements are."""
        self.lines[...] = values.reshape(self.lines.shape)

    def read(self) -> Array:
        """The elements."""
        return self.lines.copy().reshape(self.shape)

    def changed_between_rows(self) -> bool:
        """Whether anything but the elements is not as it was; these are gone then."""
        self.lines[...] = np.full(1, POISON, np.uint8).repeat(self.memory.itemsize).view(self.memory.dtype)
        return bool((self.memory.reshape(-1).view(np.uint8) != POISON).any())


def _loaded(artifact: Artifact) -> CpuKernel:
    """The kernel of an artifact, linked once where some run again and again in turn."""
    for known, kernel in _LINKED:
        if known is artifact:
            return kernel
    _LINKED.append((artifact, CpuDevice().load(artifact)))
    return _LINKED[-1][1]
