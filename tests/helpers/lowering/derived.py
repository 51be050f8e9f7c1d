"""Ways to try the sketches that rules derive: valid configs, compiled runs behind guard pages."""

from __future__ import annotations

import numpy as np

from helpers.emission.loops import HOST, run
from helpers.lowering.truth import exact_inputs
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.space import ConfigValue, config
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import Target
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical


def body_of(program: Program) -> Program:
    """A program as rules see it."""
    return normalised(canonical(program))


def some_configs(program: Program, sketch: Sketch, count: int, target: Target = HOST) -> list[dict[str, ConfigValue]]:
    """Some valid configs of a sketch."""
    config_space = sketch.config_space(program, target)
    generator = np.random.default_rng(3)
    choices = np.stack(
        [generator.integers(0, len(p.values), 256, dtype=np.int32) for p in config_space.parameters], axis=1
    )
    good = np.flatnonzero(valid(sketch.apply_population(program, target, config_space, choices), len(choices)))
    return [config(config_space, choices[row]) for row in good[:count]]


def assert_runs(program: Program, tree: LoopTree, seed: int) -> None:
    """Compiled, with one thread and with two, arrays at the ends of pages that nobody may touch beyond."""
    loops = loop_ir(tree, HOST)
    inputs = exact_inputs(program, seed)
    by_name = {declared.tensor.name: array for declared, array in zip(program.inputs, inputs, strict=True)}
    given = [by_name[buffer.name] for buffer in loops.arguments if buffer.name in by_name]
    wanted, scales = evaluate(program, inputs), evaluate(program, inputs, absolute=True)
    for threads in (1, 2):
        outputs = run(loops, given, threads, at_end=bool(seed % 2))
        for output, want, scale in zip(outputs, wanted, scales, strict=True):
            assert np.all(np.abs(output.reshape(want.shape) - want) <= 1e-5 * scale + 1e-30)
