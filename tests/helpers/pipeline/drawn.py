"""Drafts of the benchmarks' generator (benchmarks/drafts), and what is wrong with any candidate of their programs."""

from __future__ import annotations

import drafts
import numpy as np

from helpers.pipeline.candidates import complaint, random_config
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program

TARGETS = ("host", "host", "x86:avx2", "x86:sse2")


def drawn_program(seed: int) -> Program:
    """The program of a seed; mostly of f32."""
    program: Program = drafts.draw(seed).program(("f32", "f32", "f64", "f16")[seed % 4])
    return program


def complaints(program: Program, seed: int, most: int | None = None) -> list[str]:
    """What is wrong with candidates: a random config of each sketch of the rules, or of `most` sketches."""
    rng = np.random.default_rng(seed)
    task = Task.of(program, parse_target(TARGETS[rng.integers(len(TARGETS))]), int(rng.integers(1, 3)))
    found = []
    for number in rng.permutation(len(task.sketches))[:most]:
        sketch = task.sketches[number]
        values = random_config(task, sketch, rng)
        if values is None:
            continue
        try:
            wrong = complaint(task, sketch, values, seed % 1000, at_end=bool(rng.integers(2)))
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong is not None:
            found.append(f"{wrong}\n{task.target}, {task.threads} threads\n{sketch.text}\n{values}\n{program}")
    return found
