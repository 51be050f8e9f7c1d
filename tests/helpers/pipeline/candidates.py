"""Candidates the whole way: text, sketch and config become machine code, which runs beside guard pages and meets the oracle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
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
    inputs: Sequence[Array] | None = None, runner: Runner | None = None,
) -> str | None:  # fmt: skip
    """What is wrong with the outputs of a candidate, or None. Touching a guard page ends the process.

    Inputs are random unless given. `runner`: runs the artifact elsewhere than on this machine.
    """
    artifact = build(task.program, sketch, values, task.target, task.threads)
    inputs = random_inputs(task.program, seed) if inputs is None else inputs
    return Checker(task.program, inputs, seed).check((runner or run)(artifact, task, inputs, at_end))


def run(artifact: Artifact, task: Task, inputs: Sequence[Array], at_end: bool) -> list[Array]:
    """The outputs; every argument lies beside a guard page, and the outputs are poisoned first."""
    kernel = _loaded(artifact)
    placed = {d.tensor.name: _beside_a_guard(a, at_end) for d, a in zip(task.program.inputs, inputs, strict=True)}
    kernel.prepare([placed[spec.name] for spec in artifact.constants])
    outputs = [task.program.tensors[name] for name in task.program.outputs]
    arrays = [guarded_array(t.shape, t.dtype.numpy, at_end) for t in outputs]
    for array in arrays:
        array.reshape(-1).view(np.uint8).fill(0xA5)
    kernel.run([*(placed[spec.name] for spec in artifact.inputs), *arrays])
    return arrays


def _loaded(artifact: Artifact) -> CpuKernel:
    """The kernel of an artifact, linked once where some run again and again in turn."""
    for known, kernel in _LINKED:
        if known is artifact:
            return kernel
    _LINKED.append((artifact, CpuDevice().load(artifact)))
    return _LINKED[-1][1]


def _beside_a_guard(array: Array, at_end: bool) -> Array:
    copy = guarded_array(array.shape, array.dtype, at_end)
    copy[...] = array
    return copy
