"""Strategies for any candidate of any program, for whatever this machine runs."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, note, settings
from hypothesis import strategies as st

from helpers.pipeline.candidates import random_config
from helpers.random_programs import any_programs
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import ConfigValue
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program

TARGETS = tuple(parse_target(text) for text in ("host", "host", "x86:avx2", "x86:sse2"))
WITHOUT_LIMITS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
)
anything = any_programs(("f32", "f32", "f64", "i32", "f16", "bf16", "i8"))
seeds = st.integers(0, 2**32)


def drawn_candidate(program: Program, rng: np.random.Generator) -> tuple[Task, Sketch, dict[str, ConfigValue]]:
    """A task of the program, one of its sketches and a valid config, which a failure shows."""
    task = Task.of(program, TARGETS[rng.integers(len(TARGETS))], int(rng.integers(1, 3)))
    sketch = task.sketches[rng.integers(len(task.sketches))]
    values = random_config(task, sketch, rng)
    assume(values is not None)
    assert values is not None
    note(f"{task.target}, {task.threads} threads\n{task.text}\n{sketch.text}\n{values}")
    return task, sketch, values
