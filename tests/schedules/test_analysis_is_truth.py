"""An interpreter that counts finds exactly the trips, points and bytes that the batched analysis gives, and the results
of every schedule are those of the oracle.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from helpers.lowering.programs import MAKERS, random_program
from helpers.lowering.sketches import random_sketch
from helpers.lowering.truth import check_case
from helpers.random_programs import programs
from tilesmith.schedules.auto import derive
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.schedules.task import normalised
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical

TARGETS = tuple(parse_target(text) for text in ("x86:sse2", "x86:avx512;vector=128"))
WITHOUT_LIMITS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
)

seeds = st.integers(0, 2**32)
families = st.builds(lambda name, seed: random_program(Random(seed), name), st.sampled_from(sorted(MAKERS)), seeds)
small = st.builds(canonical, programs(dtypes=("f32", "i32"), sizes=(1, 2, 3, 5, 7, 8)))


def check(program: Program, seed: int, target: Target, lines: bool = False) -> None:
    random = Random(seed)
    sketch = random_sketch(program, random, lines)
    note(f"{program}\n{sketch.text}")
    assert parse_sketch(sketch.text) == sketch
    assume(check_case(program, sketch, target, random, exact=not lines))


@settings(WITHOUT_LIMITS, max_examples=50)
@given(families, seeds, st.sampled_from(TARGETS))
def test_families_of_programs(program: Program, seed: int, target: Target) -> None:
    check(program, seed, target)


@settings(WITHOUT_LIMITS, max_examples=30)
@given(small, seeds, st.sampled_from(TARGETS))
def test_any_programs(program: Program, seed: int, target: Target) -> None:
    check(program, seed, target)


@settings(WITHOUT_LIMITS, max_examples=25)
@given(families | small, seeds, st.sampled_from(TARGETS))
def test_results_of_rows_that_may_begin_at_lines(program: Program, seed: int, target: Target) -> None:
    check(program, seed, target, lines=True)


@settings(WITHOUT_LIMITS, max_examples=20)
@given(families | small, seeds, st.sampled_from(TARGETS))
def test_sketches_of_the_rules(program: Program, seed: int, target: Target) -> None:
    random = Random(seed)
    body = normalised(program)
    sketch = random.choice(derive(body))
    note(f"{body}\n{sketch.text}")
    assume(check_case(body, sketch, target, random))


@pytest.mark.slow
@settings(WITHOUT_LIMITS, max_examples=4000)
@given(families | small, seeds, st.sampled_from(TARGETS))
def test_many_programs(program: Program, seed: int, target: Target) -> None:
    check(program, seed, target)


@pytest.mark.slow
@settings(WITHOUT_LIMITS, max_examples=2000)
@given(families | small, seeds, st.sampled_from(TARGETS))
def test_many_results_of_rows_that_may_begin_at_lines(program: Program, seed: int, target: Target) -> None:
    check(program, seed, target, lines=True)
