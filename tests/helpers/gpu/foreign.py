"""Candidates of programs that strangers write, in the emulator: what is wrong with them, by an evaluation of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from helpers.plain_evaluation import compared
from tilesmith.codegen.artifact import Artifact
from tilesmith.codegen.pipeline import build
from tilesmith.runtime.devices.emulator import emulator
from tilesmith.schedules.sketch import UNSCHEDULED, Sketch
from tilesmith.schedules.space import ConfigValue, Population
from tilesmith.schedules.space_ops import concatenate, defaults, population, take
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.program import Program
from tilesmith.tuner.apply import tiers
from tilesmith.tuner.search.draft import best_choices
from tilesmith.tuner.task_space import TaskSpace

EMULATOR = parse_target("cuda:emulator")
SELDOM = 32  # of so many programs, one is run as it stands, and one as a `compile` picks it
DRAWN = 1024  # candidates of a sketch, valid or not
KEPT = 12  # of those that are valid


def complaints(program: Program, seed: int, most: int = 2, target: Target = EMULATOR) -> list[str]:
    """What is wrong with `most` random sketches under random configs, and with the draft that is predicted to be fastest."""
    task, found = Task.of(program, target, 1), []
    for sketch, values in _candidates(task, seed, most):
        try:
            fault = wrong(program, build(task.body, sketch, values, target, 1), seed)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            found.append(f"{fault}\n{sketch.text}\n{values}\n{program}")
    return found


def wrong(program: Program, artifact: Artifact, seed: int) -> str:
    """What is wrong with the outputs of an artifact, "" if nothing is. Errors: KernelFault."""
    inputs = random_inputs(program, seed)
    return compared(program, inputs, _outputs(Task.of(program, EMULATOR, 1).body, artifact, inputs, seed))


def _candidates(task: Task, seed: int, most: int) -> Iterator[tuple[Sketch, dict[str, ConfigValue]]]:
    """One of each of some sketches, at random or the best of a few; the pick of a `compile`; the nest as it stands."""
    generator, space = np.random.default_rng(seed), TaskSpace(task, default_ceilings(task.target, 1))
    if seed % SELDOM == 0:
        yield UNSCHEDULED, {}
    if seed % SELDOM == 1:
        _, pick = best_choices(space, generator, tiers.UNTUNED)[0]
        yield space.sketches[pick.sketch], space.config(pick)
    given, some = defaults(space), False
    for sketch in 1 + generator.permutation(len(space.sketches) - 1):
        own = population(sketch, (c for c in given if c.sketch == sketch), len(space.config_spaces[sketch].parameters))
        met = concatenate([own, *(_drawn(space, generator, sketch, least) for least in (True, False))])
        if len(met):
            some = True
            row = int(np.argmin(space.prior(met))) if generator.integers(2) else int(generator.integers(len(met)))
            yield space.sketches[sketch], space.config(met.candidate(row))
            most -= 1
        if most == 0:
            break
    assert some, "no sketch has a candidate"


def _drawn(space: TaskSpace, generator: np.random.Generator, sketch: int, least: bool) -> Population:
    """Some valid candidates of a sketch; of two drawn values the smaller if `least`, since many large ones are too much."""
    sizes = [len(parameter.values) for parameter in space.config_spaces[sketch].parameters]
    choices = generator.integers(0, sizes, size=(2, DRAWN, len(sizes)))
    rows = Population(int(sketch), (choices.min(axis=0) if least else choices[0]).astype(np.int32))
    return take(rows, np.flatnonzero(space.valid(rows))[:KEPT])


def _outputs(
    body: Program, artifact: Artifact, inputs: tuple[NDArray[np.generic], ...], seed: int
) -> list[NDArray[np.generic]]:
    """The outputs, which are filled with other values first."""
    device = emulator(seed=seed + 1)
    loaded = device.load(artifact)
    loaded.prepare([x for x, d in zip(inputs, body.inputs, strict=True) if d.constant])
    given = [device.upload(x) for x, d in zip(inputs, body.inputs, strict=True) if not d.constant]
    outputs = [device.empty(body.tensors[o].shape, body.tensors[o].dtype.numpy) for o in body.outputs]
    for output in outputs:
        poison = np.zeros(output.shape, output.dtype)
        poison.reshape(-1).view(np.uint8).fill(0xA5 if output.dtype != np.bool_ else 1)
        output.fill(poison)
    loaded.run([*given, *outputs])
    return [output.numpy() for output in outputs]
