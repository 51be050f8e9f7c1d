"""Reductions at computed places: right for all sketches and any schedule, in one pass over their terms; what only looks like
one stays what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from helpers.lowering.sketches import random_sketch
from helpers.lowering.truth import assert_correct, check_case, exact_inputs, run_lowered
from helpers.pipeline.candidates import complaint, random_config
from tilesmith.codegen.ir.loop_ir import Block
from tilesmith.codegen.lower.scatter import ScatterLowering
from tilesmith.codegen.pipeline import build, loop_ir
from tilesmith.cost_model.levels import levels
from tilesmith.schedules.plan import loops as plan_loops
from tilesmith.schedules.sketch import UNSCHEDULED
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.indices.scatter import scattered
from tilesmith.tensor.oracle import evaluator
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import bounded, evaluate_at
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("host")
PROGRAMS = {
    "a histogram": "input x: u8[37, 53]\nh[b: 256] = sum[i: 37, j: 53](select(b == i64(x[i, j]), i32(1), 0))\nreturn h",
    "one that leaves out places": "input x: i32[99]\nh[b: 7] = sum[i: 99](i64(b + 2 == i64(x[i] % 13)))\nreturn h",
    "compared as bytes": "input x: u8[99]\nh[b: 100] = sum[i: 99](i32(u8(b) == x[i]))\nreturn h",
    "rows": "input n: i64[40]\ninput x: f32[40, 37]\n"
    "y[r: 9, j: 37] = sum[k: 40](select(r == n[k] % 12, x[k, j], 0))\nreturn y",
    "a batch": "input n: i32[5, 40]\ninput x: f64[5, 40]\n"
    "y[b: 5, r: 9] = sum[k: 40](select(r == i64(n[b, k] % 9) and x[b, k] > 0, x[b, k], 0))\nreturn y",
    "places that move with columns": "input n: i64[40, 21]\ninput x: f32[40, 21]\n"
    "y[r: 9, j: 21] = sum[k: 40](select(n[k, j] % 9 == r, x[k, j], 0))\nreturn y",
    "two places": "input n: i64[50, 2]\ninput x: f32[50]\n"
    "y[r: 6, s: 7] = sum[k: 50](select(r == n[k, 0] % 7 and s == n[k, 1] % 7, x[k], 0))\nz[i: 7] = y[3, i] * 2\nreturn z, y",
    "the largest": "input n: i64[40]\ninput x: f32[40]\ny[r: 9] = max[k: 40](select(r == n[k] % 11, x[k], -inf))\nreturn y",
    "a product": "input n: i64[40]\ninput x: i32[40]\ny[r: 9] = prod[k: 40](select(r == n[k] % 11, x[k], 1))\nreturn y",
    "tiles of an image": "input x: f32[24, 32]\ng[i: 3, j: 4, z: 10, c: 2] = sum[r: 8, s: 8](select(z == "
    "i64(x[i * 8 + r, j * 8 + s] * 4), select(c == 0, x[i * 8 + r, j * 8 + s], 1), 0))\nreturn g",
    "terms of a part": "input n: i64[40]\ninput x: f32[44]\n"
    "y[r: 9] = sum[k: 40](select(k < 33, select(r == n[k] % 9, x[k + 3], 0), 0))\nreturn y",
    "halves": "input n: i64[40]\ninput x: f16[40, 8]\n"
    "y[r: 9, j: 8] = sum[k: 40](select(r == n[k] % 9, x[k, j], 0))\nreturn y",
    "what a stage before makes": "input x: f32[60]\nn[i: 60] = exp(x[i]) * 2\n"
    "y[r: 9] = sum[k: 60](i32(r == i64(n[k])))\nz[r: 9] = f32(y[r]) / 60\nreturn z",
}
OTHERS = {
    "the place is known": "input x: f32[9]\ny[r: 9] = sum[k: 9](select(r == k, x[k], 0))\nreturn y",
    "the value moves with the place": "input n: i64[9]\ny[r: 9] = sum[k: 9](select(r == n[k] % 9, f32(r), 0))\nreturn y",
    "elsewhere is something": "input n: i64[9]\ny[r: 9] = sum[k: 9](select(r == n[k] % 9, f32(2), 1))\nreturn y",
    "one of two": "input n: i64[9]\ny[r: 9] = sum[k: 9](i32(r == n[k] % 9 or r < 2))\nreturn y",
    "no place moves with the terms": "input n: i64[1]\ninput x: f32[9]\n"
    "y[r: 9] = sum[k: 9](select(r == n[0] % 9, x[k], 0))\nreturn y",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_sketches_are_right(text: str) -> None:
    program = parse(text)
    assert parse(str(program)) == program
    rng = np.random.default_rng(0)
    task = Task.of(program, TARGET, 2)
    for sketch in task.sketches:
        values = random_config(task, sketch, rng)
        assert values is not None and complaint(task, sketch, values, 3) is None, sketch.text


def test_rows_of_a_reader_do_not_go_over_all_terms_again() -> None:
    reader = "y[r: 300, j: 64] = b[r, j] + s[r, j]\nreturn y"
    sums = "s[r: 300, j: 64] = sum[k: 40](select(r == n[k], x[k, j], 0))"
    task = Task.of(parse(f"input n: i64[40]\ninput x: f32[40, 64]\ninput b: f32[300, 64]\n{sums}\n{reader}"), TARGET, 2)
    for sketch in task.sketches:
        tree = sketch.apply(task.body, TARGET, random_config(task, sketch, np.random.default_rng(0)) or {})
        (found,) = [stage for stage in tree.stages if scattered(tree.definition(stage.stage)) is not None]
        assert found.at is None, sketch.text


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    program = parse(text)
    assert all(scattered(stage) is None for stage in program.stages)
    task = Task.of(program, parse_target("host"), 1)
    for sketch in task.sketches:
        values = random_config(task, sketch, np.random.default_rng(0))
        assert values is not None and complaint(task, sketch, values, 3) is None


def without_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "scattered", lambda stage: None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_oracle_finds_what_each_place_sums_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse(PROGRAMS[name])
    inputs = random_inputs(program, 1)
    quick, some = (
        bounded(program, inputs),
        evaluate_at(
            program, inputs, program.outputs[0], np.zeros((1, len(program.tensors[program.outputs[0]].shape)), np.int64)
        ),
    )
    without_places(monkeypatch)
    for (value, room), (truth, bound) in zip(quick, bounded(program, inputs), strict=True):
        np.testing.assert_allclose(value, truth, rtol=1e-12)
        assert (room <= bound * 1.01 + 1e-30).all() and (room >= bound * 0.3).all()
    assert np.isclose(some[0], quick[0][0].reshape(-1)[0])


@pytest.mark.parametrize("seed", range(24))
def test_any_schedule_is_right(seed: int) -> None:
    random = Random(seed)
    program = canonical(parse(PROGRAMS[random.choice([*PROGRAMS])]))
    target = parse_target(random.choice(["x86:sse2", "x86:avx512;vector=128"]))
    sketch = random_sketch(program, random)
    check_case(program, sketch, target, random, largest=200_000, exact=False)


def _everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScatterLowering, "_among", lambda *args: None)


def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_loops, "scattered", lambda stage: replace(scattered(stage), guards=()))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("name", "plant"), [("one that leaves out places", _everywhere), ("rows", _everywhere), ("a batch", _always)]
)
def test_a_term_without_its_conditions_is_caught(
    name: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = canonical(parse(PROGRAMS[name]))
    inputs, tree = list(random_inputs(program, 5)), UNSCHEDULED.apply(program, TARGET, {})
    assert_correct(program, tree, TARGET, inputs)
    plant(monkeypatch)
    with pytest.raises((AssertionError, IndexError)):
        assert_correct(program, tree, TARGET, inputs)


def test_what_is_not_set_first_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    program = canonical(parse(PROGRAMS["rows"]))
    monkeypatch.setattr(ScatterLowering, "_set_identity", lambda self, view: Block(()))
    with pytest.raises(AssertionError):
        assert_correct(program, UNSCHEDULED.apply(program, TARGET, {}), TARGET, exact_inputs(program, 1))


def test_bytes_meet_256_places_without_a_question() -> None:
    task = Task.of(
        parse("input x: u8[99, 640]\nh[b: 256] = sum[i: 99, j: 640](i32(b == i64(x[i, j])))\nreturn h"), TARGET, 2
    )
    sketch = next(s for s in task.sketches if "split_k" in s.text)
    values = {p.name: p.values[0] for p in sketch.config_space(task.body, TARGET).parameters}
    loops = build(task.program, sketch, values, TARGET, 2, texts=True).texts["loops"]
    assert "if " not in loops.split("nest t1")[0]


def test_terms_counted_are_terms_run() -> None:
    """The cost model counts a pass over the terms, for each block of places."""
    task = Task.of(parse(PROGRAMS["rows"]), TARGET, 2)
    (sketch,) = task.sketches[1:2]
    space = sketch.config_space(task.body, task.target)
    values = {p.name: p.values[-1] for p in space.parameters}
    tree = sketch.apply(task.body, task.target, values)
    name = tree.stages[0].stage
    counted = levels(tree).stages[name]
    run, _ = run_lowered(task.body, loop_ir(tree, task.target), list(random_inputs(task.body, 1)))
    kept = [loop for loop in tree.stages[0].loops if loop.name not in counted.plan.loops.aside]
    assert [counted.trips[n + 1] for n in range(len(kept))] == [run.trips[loop.name] for loop in kept]
    assert counted.asked == 40 * 37
