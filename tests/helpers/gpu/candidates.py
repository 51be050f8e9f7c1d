"""Candidates of the GPU rules in the emulator: small programs, their sketches, a few configs of each, the oracle's verdict."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesmith.codegen.artifact import Artifact
from tilesmith.cost_model.analytic import predict
from tilesmith.runtime.devices.emulator import emulator
from tilesmith.schedules.auto import derive
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.space import ConfigValue, config
from tilesmith.schedules.task import Task, normalised
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.dtype import DType, bf16
from tilesmith.tensor.oracle.random_inputs import random_array
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tuner.apply.tiers import analytic_pick

EMULATOR = parse_target("cuda:emulator")
EMULATORS = ("cuda:emulator", "amdgpu:emulator")  # warps of 32 lanes and of 64
DRAWS = 4096
Config = dict[str, ConfigValue]


def body_of(program: Program) -> Program:
    """A program as rules see it."""
    return normalised(canonical(program))


@cache
def sketches(body: Program, target: Target = EMULATOR) -> tuple[Sketch, ...]:
    """What the rules derive, the unscheduled nest left out."""
    return derive(body, target)[1:]


def drawn(body: Program, sketch: Sketch, target: Target, seed: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """(choices of valid candidates, their predicted seconds)."""
    config_space, generator = sketch.config_space(body, target), np.random.default_rng(seed)
    choices = np.empty((DRAWS if config_space.parameters else 1, len(config_space.parameters)), dtype=np.int32)
    for column, parameter in enumerate(config_space.parameters):
        choices[:, column] = generator.integers(0, len(parameter.values), len(choices))
    tree = sketch.apply_population(body, target, config_space, choices)
    seconds = predict(tree, target, 1, default_ceilings(target, 1), len(choices))
    good = np.flatnonzero(valid(tree, len(choices)))
    return choices[good], seconds[good]


def picked(body: Program, target: Target) -> tuple[Sketch, Config]:
    """The candidate that `compile` takes where there is no record."""
    pick = analytic_pick(Task.of(body, target, 1))
    return pick.sketch, dict(pick.config)


def some_configs(body: Program, sketch: Sketch, count: int, seed: int, target: Target = EMULATOR) -> list[Config]:
    """Valid configs of a sketch, at random."""
    choices, _ = drawn(body, sketch, target, seed)
    return [config(sketch.config_space(body, target), row) for row in choices[:count]]


def fault(body: Program, artifact: Artifact, seed: int = 1) -> str:
    """What is wrong with the outputs of an artifact in the emulator, "" if nothing is. Errors: KernelFault."""
    generator, device = np.random.default_rng(0), emulator(seed=seed)
    given = [np.asarray(random_array(d.tensor.shape, d.tensor.dtype, generator)) for d in body.inputs]
    loaded = device.load(artifact)
    loaded.prepare([x for x, d in zip(given, body.inputs, strict=True) if d.constant])
    inputs = [device.upload(x) for x, d in zip(given, body.inputs, strict=True) if not d.constant]
    outputs = [device.empty(body.tensors[o].shape, body.tensors[o].dtype.numpy) for o in body.outputs]
    for output in outputs:
        output.fill(np.full(output.shape, np.nan if output.dtype.kind == "f" else 99, output.dtype))
    loaded.run([*inputs, *outputs])
    wanted, scales = evaluate(body, given), evaluate(body, given, absolute=True)
    for name, output, want, scale in zip(body.outputs, outputs, wanted, scales, strict=True):
        dtype = body.tensors[name].dtype
        found = _numbers(output.numpy(), dtype).reshape(want.shape)
        allowed = 16 * (dtype.eps if dtype.is_float else 0.0) * scale + 1e-30
        same = (found == want) | (np.isnan(found) & np.isnan(want))
        bad = ~(same | (np.abs(found - want) <= allowed))
        if bad.any():
            return f"{name}: {bad.sum()} of {bad.size} points, first {found[bad][0]} for {want[bad][0]}"
    return ""


def _numbers(array: NDArray[Any], dtype: DType) -> NDArray[np.float64]:
    if dtype == bf16:  # NumPy has it as bits
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)
