"""Nothing fails: programs that a seed draws, by all their sketches and random configs, and as `compile` picks them."""

from __future__ import annotations

import drafts
import numpy as np
import pytest
from pipeline.drawn import complaints, drawn_program

import tilesmith
from tilesmith.measure.verify import Checker
from tilesmith.tensor.random import random_inputs
from tilesmith.tensor.reference import evaluate

PORTION = 100


@pytest.mark.parametrize("seed", range(150))
def test_programs_mean_what_numpy_says(seed: int) -> None:
    draft = drafts.draw(seed)
    program = draft.program("f64")
    assert 3 <= len(program.stages) <= 6
    inputs = random_inputs(program, seed)
    for ours, numpys in zip(evaluate(program, inputs), draft.results(np, inputs), strict=True):
        np.testing.assert_allclose(ours, numpys, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(24))
def test_all_sketches_of_drawn_programs_are_right(seed: int) -> None:
    assert not complaints(drawn_program(seed), seed)


@pytest.mark.parametrize("seed", range(8))
def test_what_compile_picks_is_right(seed: int) -> None:
    program = drawn_program(seed)
    kernel = tilesmith.compile(program)
    inputs = random_inputs(program, seed)
    found = kernel(*inputs)
    outputs = [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]
    assert Checker(program, inputs, seed).check(outputs) is None


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, PORTION))
def test_two_thousand_programs(first: int) -> None:
    for seed in range(first, first + PORTION):
        assert not complaints(drawn_program(seed), seed), f"seed {seed}"
