"""Any program by any sketch of the rules and any config: machine code beside guard pages gives what the oracle says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from helpers.pipeline.anything import WITHOUT_LIMITS, anything, drawn_candidate, seeds
from helpers.pipeline.candidates import complaint
from tilesmith.tensor.program import Program


def check(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    task, sketch, values = drawn_candidate(program, rng)
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
