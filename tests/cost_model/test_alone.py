"""A candidate has the same numbers alone, in a population, and as recorded: its loops of one trip are no loops in all three."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.modelling.programs import drawn
from helpers.pipelines import drawn_pipeline
from helpers.random_programs import MORE_KINDS, programs
from tilesmith.cost_model.analytic import predict
from tilesmith.cost_model.features import features
from tilesmith.cost_model.levels import levels
from tilesmith.cost_model.populations import told_apart
from tilesmith.cost_model.sketch_model import SketchModel
from tilesmith.schedules.plan.stage import plan_of
from tilesmith.schedules.plan.variants import questions
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch
from tilesmith.schedules.space import config
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import Target, parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGETS = ("x86:avx512", "x86:avx512+amx", "x86:avx2", "cuda:sm_90a", "amdgpu:gfx942")
OPERATORS = {
    "matmul": lambda: ops.matmul(96, 80, 64),
    "softmax": lambda: ops.softmax(60, 200),
    "attention": lambda: ops.attention(2, 48, 64, 32),
    "convolution": lambda: ops.conv2d(1, 24, 14, 14, 40, kernel=3, padding=1, constants=("W",)),
    "rows": lambda: ops.layer_norm(48, 96),
}
ROWS = 24
HYPOTHESIS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
)


def check(program: Program, name: str, seed: int, most: int = 3) -> None:
    """Compares some valid candidates of a few sketches."""
    target, rng = parse_target(name), np.random.default_rng(seed)
    task = Task.of(program, target, 1 + seed % 2)
    for number in rng.permutation(len(task.sketches))[:most]:
        check_sketch(task.sketches[number], task.body, target, task.threads, seed)


def check_sketch(sketch: Sketch, body: Program, target: Target, threads: int, seed: int, most: int = 3) -> None:
    """Compares some valid candidates of a sketch."""
    ceilings, config_space = default_ceilings(target, threads), sketch.config_space(body, target)
    tree, choices, good = drawn(sketch, body, ROWS, seed, target)
    seconds, table = predict(tree, target, threads, ceilings, ROWS), features(tree, target, threads, ROWS)
    if not target.is_gpu:
        model = SketchModel(sketch.opened(body, target), config_space, target, threads, ceilings)
        assert model.seconds(choices) == pytest.approx(seconds, rel=1e-12)
        np.testing.assert_allclose(model.features(choices), table, rtol=1e-6, atol=1e-6)
    for row in np.flatnonzero(good)[:most]:
        one = sketch.apply(body, target, config(config_space, choices[row]))
        assert predict(one, target, threads, ceilings, 1)[0] == pytest.approx(seconds[row], rel=1e-9)
        np.testing.assert_allclose(features(one, target, threads, 1)[0], table[row], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "target"), list(zip(OPERATORS, TARGETS, strict=True)))
def test_operators(name: str, target: str) -> None:
    check(OPERATORS[name](), target, seed=1, most=2)


@pytest.mark.parametrize("seed", range(len(TARGETS)))
def test_stages_that_read_one_another(seed: int) -> None:
    check(drawn_pipeline(seed), TARGETS[seed], seed, most=2)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_on_all_targets(name: str, target: str) -> None:
    check(OPERATORS[name](), target, seed=1, most=6)


@pytest.mark.slow
@settings(HYPOTHESIS, max_examples=150)
@given(programs(MORE_KINDS), st.sampled_from(TARGETS), st.integers(0, 1 << 20))
def test_any_program(program: Program, target: str, seed: int) -> None:
    check(program, target, seed)


SUMS = "input x: f32[64, 48]\ninput w: f32[64, 48]\ny[i: 64] = sum[k: 48](x[i, k] * w[i, k])\nreturn y"


def rows_around(s: Schedule) -> None:
    """Some rows are written out around a piece of the sum that may have one trip, and vectors are inside of it."""
    i, k = s.stage("t0").loops
    i0, i1 = s.split(i, s.choice("rows", [1, 2, 4], 2))
    k0, k1, k2 = s.split(k, s.choice("pieces", [1, 3], 1), 16)
    s.reorder(i0, k0, i1, k1, k2)
    s.unroll(i1)
    s.vectorize(k2)


def test_rows_around_a_loop_of_one_trip_are_straight_code_of_those_that_have_it_so() -> None:
    target, body = parse_target("x86:avx512"), canonical(parse(SUMS))
    (sketch,) = trace(rows_around, body)
    check_sketch(sketch, body, target, 1, seed=0, most=ROWS)
    tree, _, _ = drawn(sketch, body, ROWS, 0, target)
    (question,) = questions(plan_of(tree, gpu=False), told_apart(gpu=False))
    assert question.number is None and set(np.asarray(question.answer)) == {0, 1}
    for pieces, depth in ((1, 2), (3, 4)):
        one = levels(sketch.apply(body, target, {"rows": 2, "pieces": pieces})).stages["t0"]
        assert one.body == depth
