"""What is computed ahead: code and predictions leave out the same, and whatever is predicted takes some time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.random_programs import MORE_KINDS, programs
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.cost_model.analytic import CALL, predict
from tilesmith.cost_model.gpu.analytic import START
from tilesmith.cost_model.levels import levels
from tilesmith.schedules.prepared import constant_tensors, prepared_stages
from tilesmith.schedules.sketch import UNSCHEDULED, valid
from tilesmith.schedules.space import config
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.exceptional import exceptional_condition
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

TARGETS = {"processor": parse_target("x86:avx512"), "gpu": parse_target("cuda:sm_90a")}
DRAWS = 24
WITHOUT_LIMITS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
)

SECOND = """
constant w: f32[64, 512]
fold[j: 512] {
    top[i: 64]: f32 = -inf
    sums[i: 64]: f32 = 0
    top = max(top[i], w[i, j])
    sums = sums[i] + w[i, j] * top[i]
}
return sums
"""
TABLES = """
input x: f32[3]
constant c: f32[4]
table w: f32[3] = [1, 2, 3]
t[i: 3] = exp(w[i])
u[i: 3, j: 4] = exp(w[i] + c[j])
v[i: 3, j: 4] = t[i] * u[i, j] + x[i]
return v
"""
PARTLY = """
input x: f32[40]
constant c: f32[40]
p, q[i: 40] = exp(c[i]), exp(c[i] + 1)
r[i: 40] = p[i] + x[i]
return q, r
"""


def check(program: Program, target: str, seed: int, most: int = 3) -> None:
    """Draws sketches and configs; what code prepares is what the model leaves out, and no prediction is out of range."""
    chosen, rng = TARGETS[target], np.random.default_rng(seed)
    task = Task.of(program, chosen, int(rng.integers(1, 3)))
    ceilings = default_ceilings(chosen, task.threads)
    order = [int(n) for n in rng.permutation(len(task.sketches))[:most]]
    for sketch in [UNSCHEDULED, *(task.sketches[n] for n in order)]:
        config_space = sketch.config_space(task.body, chosen)
        rows = [rng.integers(0, [len(p.values) for p in config_space.parameters]) for _ in range(DRAWS)]
        choices = np.array(rows, np.int32).reshape(DRAWS, len(config_space.parameters))
        tree = sketch.apply_population(task.body, chosen, config_space, choices)
        good = np.flatnonzero(valid(tree, DRAWS))
        seconds = predict(tree, chosen, task.threads, ceilings, DRAWS)[good]
        assert np.isfinite(seconds).all() and (seconds >= (CALL if target == "processor" else START)).all()
        if len(good):
            one = sketch.apply(task.body, chosen, config(config_space, choices[good[0]]))
            made, counted = loop_ir(one, chosen), levels(one)
            ahead = {nest.name for nest in made.prepare if not nest.name.startswith("keep_")}
            rare = {s.stage for s in one.stages if exceptional_condition(one.definition(s.stage)) is not None}
            assert ahead == {name for name in prepared_stages(one) if one.by_stage[name].at is None}
            assert {nest.name for nest in made.nests} - rare == {root.name for root in counted.roots}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", [SECOND, TABLES, PARTLY])
def test_what_is_an_output_or_reads_tables_alone_runs_at_each_call(text: str, target: str) -> None:
    check(parse(text), target, 0)


def test_a_fold_of_which_only_the_second_tensor_is_returned_takes_its_time() -> None:
    target = TARGETS["processor"]
    task = Task.of(parse(SECOND), target, 1)
    for sketch in task.sketches:
        config_space = sketch.config_space(task.body, target)
        tree = sketch.apply(task.body, target, config(config_space, config_space.default))
        assert predict(tree, target, 1, default_ceilings(target, 1), 1)[0] > 1e-6


SCAN = """
input x: f32[64, 4096]
fold[k: 4096] {
    s[i: 64]: f32 = 0
    y[i: 64, j: 4096]: f32 = 0
    s = s[i] + x[i, k]
    y = select(j == k, s[i] + x[i, k], y[i, j])
}
return y
"""


@pytest.mark.parametrize("target", TARGETS)
def test_what_each_step_writes_at_its_own_place_takes_no_loop(target: str) -> None:
    """A quarter of a million steps of which each writes one element: not a thousand million points."""
    chosen = TARGETS[target]
    task = Task.of(parse(SCAN), chosen, 1)
    for sketch in task.sketches[1:]:
        config_space = sketch.config_space(task.body, chosen)
        tree = sketch.apply(task.body, chosen, config(config_space, config_space.default))
        assert 1e-5 < predict(tree, chosen, 1, default_ceilings(chosen, 1), 1)[0] < 1e-2
    (stage,) = levels(tree).stages.values()
    assert stage.trips[-1] == stage.asked == 64 * 4096


def test_rules_take_for_constant_what_code_prepares() -> None:
    assert constant_tensors(parse(TABLES)) == {"c", "w", "u"}
    assert constant_tensors(parse(PARTLY)) == {"c"}


@settings(WITHOUT_LIMITS, max_examples=25)
@given(programs(kinds=MORE_KINDS), st.sampled_from(sorted(TARGETS)), st.integers(0, 1000))
def test_any_program(program: Program, target: str, seed: int) -> None:
    check(program, target, seed, most=2)


@pytest.mark.slow
@settings(WITHOUT_LIMITS, max_examples=1500)
@given(programs(kinds=MORE_KINDS, max_stages=4), st.sampled_from(sorted(TARGETS)), st.integers(0, 1000))
def test_many_programs(program: Program, target: str, seed: int) -> None:
    check(program, target, seed)


ACROSS = """
input x: f32[8, 64]
constant w: f32[96, 64]
y[i: 8, j: 96] = sum[k: 64](x[i, k] * w[j, k])
z[i: 8, j: 96] = max(y[i, j], 0)
return z
"""


@pytest.mark.parametrize("rows", [1, 8])
def test_what_a_prepared_nest_needs_inside_of_it_is_prepared_too(rows: int) -> None:
    """Weights that are packed across go through registers on their way; none of that is done at each call."""
    task = Task.of(parse(ACROSS.replace("8", str(rows))), TARGETS["processor"], 2)
    inside = 0
    for sketch in task.sketches[1:]:
        config_space = sketch.config_space(task.body, task.target)
        tree = sketch.apply(task.body, task.target, config(config_space, config_space.default))
        ahead = prepared_stages(tree)
        constant = constant_tensors(tree.program)
        for stage in tree.stages:
            if stage.stage in constant:
                assert stage.stage in ahead, sketch.title
                inside += stage.at is not None
    assert inside > 0
