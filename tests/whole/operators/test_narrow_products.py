"""Sums whose terms a program itself keeps narrow: each product is rounded, so the bound is wide unless it knows how."""

from __future__ import annotations

import numpy as np
import pytest
from whole.operators.test_faults import undetected

from helpers.pipeline.candidates import random_config, run
from tilesmith.codegen.pipeline import build
from tilesmith.measure.checking.verify import Checker
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.oracle.random_inputs import Magnitudes, random_inputs
from tilesmith.tensor.oracle.reference import bounded
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

NARROW = ("f16", "bf16")
PROGRAMS = {
    "matrix product": "input x: {0}[6, 2000]\ninput y: {0}[2000, 5]\nt[i: 6, j: 5] = sum[k: 2000](x[i, k] * y[k, j])\nreturn t",
    "equal products": "input x: {0}[8]\ninput y: {0}[8]\nt[i: 8, j: 8] = sum[r: 500, s: 3](x[i] * y[j])\nreturn t",
    "three factors": "input x: {0}[9]\ninput y: {0}[1500, 7]\ninput z: {0}[1500]\n"
    "t[i: 9, j: 7] = sum[r: 1500](x[i] * y[r, j] * z[r])\nreturn t",
    "factors that are a product": "input x: {0}[9]\ninput y: {0}[1500, 7]\ninput z: {0}[1500]\n"
    "t[i: 9, j: 7] = sum[r: 1500](x[i] * (y[r, j] * z[r]))\nreturn t",
    "squares of differences": "input x: {0}[7, 1500]\ninput y: {0}[1500]\n"
    "t[i: 7] = sum[k: 1500]((x[i, k] - y[k]) * (x[i, k] - y[k]))\nreturn t",
    "literals": "input x: {0}[7, 1500]\nt[i: 7] = sum[k: 1500](x[i, k] * 0.1 + 0.3)\nreturn t",
    "conversions": "input x: f32[7, 1500]\ninput n: i32[1500]\nt[i: 7] = sum[k: 1500]({0}(x[i, k] * 3) * {0}(n[k]))\nreturn t",
    "a window": "input x: {0}[40, 9, 31]\ninput w: {0}[40, 3]\n"
    "t[o: 9, i: 31] = sum[c: 40, r: 3](select(i + r >= 1 and i + r < 32, x[c, o, i + r - 1], 0) * w[c, r])\nreturn t",
}  # fmt: skip
KNOWN = [name for name in PROGRAMS if name not in ("factors that are a product", "a window", "equal products")]


def program_of(name: str, dtype: str) -> Program:
    return parse(PROGRAMS[name].format(dtype))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", PROGRAMS)
def test_right_kernels_pass(name: str, dtype: str) -> None:
    program = program_of(name, dtype)
    task, rng = Task.of(program, parse_target("host"), 1), np.random.default_rng(0)
    given = [random_inputs(program, 1, sizes) for sizes in Magnitudes]
    checkers = [Checker(program, inputs) for inputs in given]
    for sketch in task.sketches[:6]:
        values = random_config(task, sketch, rng)
        if values is not None:
            artifact = build(task.program, sketch, values, task.target, 1)
            for inputs, checker in zip(given, checkers, strict=True):
                assert checker.check(run(artifact, task, inputs, at_end=True)) is None, (sketch.text, values)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", KNOWN)
def test_faults_are_found(name: str, dtype: str) -> None:
    """A term left out, a block of them, and a sum that is accumulated as narrow as its terms."""
    missed = dict(undetected(program_of(name, dtype), many=64))
    assert not {fault for fault in missed if "64 of t" in fault or fault == "t narrow"}, missed


@pytest.mark.parametrize("dtype", NARROW)
def test_the_bound_of_a_long_sum_is_of_the_size_of_its_errors(dtype: str) -> None:
    """Not of all roundings that its terms may make, which is half a unit of the sum of their sizes."""
    program = program_of("matrix product", dtype)
    x, y = inputs = random_inputs(program, 1)
    ((_, tolerance),) = bounded(program, inputs)
    places = {"f16": 2.0**-10, "bf16": 2.0**-7}[dtype]
    if dtype == "bf16":
        x, y = ((a.astype(np.uint32) << 16).view(np.float32) for a in (x, y))
    assert tolerance.max() < 0.2 * places / 2 * (np.abs(x).astype(np.float64) @ np.abs(y)).min()
