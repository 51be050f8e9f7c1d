"""Any program by any sketch of the rules and any config: machine code beside guard pages gives what the oracle says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from helpers.pipeline.candidates import complaint, random_config
from helpers.random_programs import any_programs
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program

TARGETS = tuple(parse_target(text) for text in ("host", "host", "x86:avx2", "x86:sse2"))
WITHOUT_LIMITS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
)
anything = any_programs(("f32", "f32", "f64", "i32", "f16", "bf16", "i8"))
seeds = st.integers(0, 2**32)


def check(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    task = Task.of(program, TARGETS[rng.integers(len(TARGETS))], int(rng.integers(1, 3)))
    sketch = task.sketches[rng.integers(len(task.sketches))]
    values = random_config(task, sketch, rng)
    assume(values is not None)
    assert values is not None
    note(f"{task.target}, {task.threads} threads\n{task.text}\n{sketch.text}\n{values}")
    assert complaint(task, sketch, values, seed % 1000, at_end=bool(rng.integers(2))) is None


@settings(WITHOUT_LIMITS, max_examples=40)
@given(anything, seeds)
def test_candidates_of_random_programs_are_right(program: Program, seed: int) -> None:
    check(program, seed)


@pytest.mark.slow
@settings(WITHOUT_LIMITS, max_examples=3000)
@given(anything, seeds)
def test_many_candidates_of_random_programs_are_right(program: Program, seed: int) -> None:
    check(program, seed)
