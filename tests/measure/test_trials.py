"""Whole trials: real sketches are compiled, checked and timed by the local runner."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from contracts.measure_kernels import TRUSTING_TIMER
from contracts.runner import RunnerContract, gather
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.result import Job, Purpose, Status
from tilesmith.schedules.sketch import Sketch, valid
from tilesmith.schedules.space import config
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

HOST = parse_target("host")
MATMUL = parse(
    "input A: f32[65, 37]\ninput B: f32[37, 70]\nC[i: 65, j: 70] = sum[k: 37](A[i, k] * B[k, j])\nreturn C\n"
)
SEVERAL = parse(
    "input A: f32[40, 50]\nconstant w: f32[50]\n"
    "M[i: 40] = max[j: 50](A[i, j])\nE[i: 40, j: 50] = exp(A[i, j] - M[i]) * w[j]\n"
    "S[i: 40] = sum[j: 50](E[i, j])\nreturn E, S\n"
)
INTEGERS = parse("input A: i8[33, 64]\nS[i: 33] = sum[j: 64](i32(A[i, j]))\nreturn S\n")


def random_jobs(program: Program, threads: int, count: int) -> list[Job]:
    """Jobs of random valid candidates of all sketches of a program, the unscheduled nest first."""
    task, rng = Task.of(program, HOST, threads), np.random.default_rng(7)
    jobs = [job(0, task, Sketch("default", ()), {})]
    while len(jobs) < count:
        sketch = task.sketches[int(rng.integers(len(task.sketches)))]
        config_space = sketch.config_space(task.body, HOST)
        sizes = [len(p.values) for p in config_space.parameters]
        choices = rng.integers(0, sizes, size=(64, len(sizes))).astype(np.int32)
        tree = sketch.apply_population(task.body, HOST, config_space, choices)
        good = np.flatnonzero(valid(tree, 64))
        if len(good):
            jobs.append(job(len(jobs), task, sketch, config(config_space, choices[good[0]])))
    return jobs


def job(number: int, task: Task, sketch: Sketch, values: dict) -> Job:
    return Job(number, task.text, sketch.text if sketch.steps else "", values, HOST.text, task.threads)


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalRunner]:
    with LocalRunner(HOST.text, 2, timer=TRUSTING_TIMER) as one:
        yield one


class TestRealTrials(RunnerContract):
    @pytest.fixture
    def runner(self) -> Iterator[LocalRunner]:
        with LocalRunner(HOST.text, 1, builders=1, timer=TRUSTING_TIMER) as one:
            yield one

    def good_job(self, number: int, purpose: Purpose = Purpose.SEARCH) -> Job:
        return Job(number, Task.of(MATMUL, HOST, 1).text, "", {}, HOST.text, 1, purpose)

    def bad_job(self, number: int) -> Job:
        return Job(number, Task.of(MATMUL, HOST, 1).text, "no sketch at all", {}, HOST.text, 1)


@pytest.mark.parametrize("program", [MATMUL, SEVERAL, INTEGERS], ids=["matmul", "several", "integers"])
@pytest.mark.parametrize("threads", [1, 2])
def test_random_candidates_are_right(shared: LocalRunner, program: Program, threads: int) -> None:
    jobs = random_jobs(program, threads, 6)
    for one in jobs:
        shared.submit(one)
    done = gather(shared, len(jobs))
    assert [m.failure for m in done.values() if not m.ok] == []
    for measurement in done.values():
        assert measurement.compile_seconds > 0 and measurement.check_seconds > 0
        assert "codegen" in measurement.builder and "OMP_WAIT_POLICY" in measurement.device


def test_a_config_that_breaks_a_condition_is_invalid(shared: LocalRunner) -> None:
    task = Task.of(MATMUL, HOST, 1)
    sketch = task.sketches[-1]
    config_space = sketch.config_space(task.body, HOST)
    largest = config(config_space, [len(p.values) - 1 for p in config_space.parameters])
    first, *others = largest
    shared.submit(job(1, task, sketch, largest))
    shared.submit(job(2, task, sketch, {first: largest[first]}))
    done = gather(shared, 2)
    assert done[1].status is Status.INVALID and done[2].status is Status.INVALID
    assert done[1].failure is not None and done[1].failure.stage == "lower" and "not valid" in done[1].failure.message
    assert done[2].failure is not None and others[0] in done[2].failure.message


def test_a_program_for_another_target_fails_as_a_value(shared: LocalRunner) -> None:
    text = Task.of(MATMUL, HOST, 1).text
    shared.submit(Job(1, text, "", {}, "aarch64:neon", 1))
    shared.submit(Job(2, "this is no program", "", {}, HOST.text, 1))
    done = gather(shared, 2)
    assert [done[n].status for n in (1, 2)] == [Status.COMPILE_ERROR] * 2
    assert done[1].failure is not None and done[1].failure.stage == "load"
    assert done[2].failure is not None and "syntax error" in done[2].failure.message
