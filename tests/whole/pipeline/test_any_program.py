"""Nothing fails: programs that a seed draws, by all their sketches and random configs, and as `compile` picks them."""

from __future__ import annotations

import drafts
import numpy as np
import pytest

import tilesmith
from helpers.pipeline.candidates import complaint, random_config
from helpers.pipeline.drawn import complaints, drawn_program
from tilesmith.measure.checking.verify import Checker
from tilesmith.schedules.auto import MOST
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.random_inputs import random_inputs
from tilesmith.tensor.oracle.reference import evaluate
from tilesmith.tensor.text.parse import parse

PORTION = 50


@pytest.mark.parametrize("seed", range(150))
def test_programs_mean_what_numpy_says(seed: int) -> None:
    draft = drafts.draw(seed)
    program = draft.program("f64")
    assert 3 <= len(program.stages) <= 6
    inputs = random_inputs(program, seed)
    for ours, numpys in zip(evaluate(program, inputs), draft.results(np, inputs), strict=True):
        np.testing.assert_allclose(ours, numpys, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(24))
def test_some_sketches_of_drawn_programs_are_right(seed: int) -> None:
    assert not complaints(drawn_program(seed), seed, most=4)


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
def test_all_sketches_of_two_thousand_programs(first: int) -> None:
    for seed in range(first, first + PORTION):
        assert not complaints(drawn_program(seed), seed), f"seed {seed}"


# What the seeds have found, shrunk; each was refused or wrong once.
FOUND = {
    "an attached reduction in vectors along rows of its consumer": """
        input x: f32[5, 13]
        input w: f32[3]
        t[i: 5, j: 13] = sum[r: 3](select(j + r - 1 >= 0 and j + r - 1 < 13, x[i, j + r - 1], 0) * w[r])
        u[j: 13, i: 5] = t[i, j]
        return u
        """,
    "a divisor that a guard keeps inside of its tensor": """
        input x: f32[33, 16]
        input w: f32[3]
        input b: f32[33]
        t[i: 33, j: 16] = x[i, j] / (abs(b[i]) + 1)
        u[i: 33, j: 16] = sum[r: 3](select(i + r - 1 >= 0 and i + r - 1 < 33, t[i + r - 1, j], 0) * w[r])
        return u
        """,
    "a product with the results of a scan": """
        input x: f64[2, 9]
        input w: f64[9, 7]
        fold[k: 9] {
            s[i: 2]: f64 = 0
            y[i: 2, j: 9]: f64 = 0
            let new = s[i] + x[i, k]
            s = new
            y = select(j == k, new, y[i, j])
        }
        z[i: 2, j: 7] = sum[k: 9](y[i, k] * w[k, j])
        return z
        """,
    "terms that are asked for along rows that are no multiple of a vector": """
        input p: f32[5, 100]
        input x: f32[5, 7]
        input y: f32[7, 100]
        e[i: 5, j: 100] = sum[k: 7](select(not abs(p[i, j]) < 0.9, x[i, k] * y[k, j], 0))
        m[i: 5] = max[j: 100](e[i, j])
        z[i: 5, j: 100] = e[i, j] - m[i]
        return z
        """,
    "terms that are asked for, read at a shift": """
        input p: f32[9, 21]
        input x: f32[9, 7]
        input y: f32[7, 21]
        e[i: 9, j: 21] = sum[k: 7](select(not abs(p[i, j]) < 0.5, x[i, k] * y[k, j], 0))
        z[i: 9, j: 21] = sum[r: 2](select(i + r - 1 >= 0, e[i + r - 1, j], 0))
        return z
        """,
    "three products that share an operand": """
        input x: f32[9, 7]
        input a: f32[7, 8]
        input b: f32[8, 6]
        input c: f32[8, 5]
        t[i: 9, j: 8] = sum[k: 7](x[i, k] * a[k, j])
        u[i: 9, j: 6] = sum[k: 8](t[i, k] * b[k, j])
        v[i: 9, j: 5] = sum[k: 8](t[i, k] * c[k, j])
        return u, v
        """,
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND.keys())
def test_what_was_found_stays_right(text: str) -> None:
    program = parse(text)
    task = Task.of(program, parse_target("host"), 2)
    assert len(task.sketches) <= MOST + 1
    for sketch in task.sketches[:24]:
        values = random_config(task, sketch, np.random.default_rng(0))
        assert values is not None and complaint(task, sketch, values, 1) is None
