"""Candidates of programs that strangers write, as machine code: what is wrong with them, by an evaluation of their own."""

from __future__ import annotations

import numpy as np

from helpers.pipeline.candidates import random_config, run
from helpers.plain_evaluation import compared
from tilesmith.codegen.pipeline import build
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.program import Program

TARGETS = ("host", "host", "x86:avx2", "x86:sse2")


def complaints(program: Program, seed: int, most: int = 3) -> list[str]:
    """What is wrong with `most` random sketches under random configs. Touching a guard page ends the process."""
    rng = np.random.default_rng(seed)
    task = Task.of(program, parse_target(TARGETS[rng.integers(len(TARGETS))]), int(rng.integers(1, 3)))
    inputs, found = random_inputs(program, seed), []
    for number in rng.permutation(len(task.sketches))[:most]:
        sketch = task.sketches[number]
        values = random_config(task, sketch, rng)
        if values is None:
            continue
        try:
            artifact = build(task.program, sketch, values, task.target, task.threads)
            wrong = compared(program, inputs, run(artifact, task, inputs, at_end=bool(rng.integers(2))))
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            found.append(f"{wrong}\n{task.target}, {task.threads} threads\n{sketch.text}\n{values}\n{program}")
    return found
