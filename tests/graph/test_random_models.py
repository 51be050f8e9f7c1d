"""Random programs of the size of models: rewritten, cut, compiled and joined, they compute what the oracle does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from helpers.graph.cut import Builds, parted
from helpers.pipeline.candidates import run
from helpers.random_programs import MODEL_KINDS, programs
from tilesmith.measure.checking.verify import Checker
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.program import Program

HOST = parse_target("host")
LARGE = programs(min_stages=20, max_stages=60, dtypes=("f32", "i32"), kinds=MODEL_KINDS, sizes=(1, 4, 5, 16, 16))
BUILDS, PICKED = Builds(1), Builds(2, analytic=True)


def complaint(program: Program, builds: Builds, at_end: bool) -> str | None:
    """What is wrong with the outputs of a program that was cut and joined, whose arguments lie beside guard pages."""
    made = parted(program, builds)
    inputs = random_inputs(program, 4)
    return Checker(program, inputs, 4).check(run(made, Task(program, HOST, made.threads), inputs, at_end))


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(LARGE)
def test_programs_of_many_stages(program: Program) -> None:
    assert complaint(program, BUILDS, at_end=True) is None


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(LARGE)
def test_programs_of_many_stages_with_what_is_picked(program: Program) -> None:
    for at_end in (True, False):
        assert complaint(program, PICKED, at_end) is None
