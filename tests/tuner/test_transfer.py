"""What other tasks in a database are worth for a new one: nothing is compiled, times are made up from the analytic model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tilesmith.measure.machine import machine_key
from tilesmith.measure.result import Job, Measurement, Purpose, Status
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.schedules.space import Candidate
from tilesmith.schedules.space_ops import population
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import matmul, softmax
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.effort import Transfer
from tilesmith.tuner.problem import Problem, problem_of
from tilesmith.tuner.records.data import Machine
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.search.pool import described
from tilesmith.tuner.task_space import TaskSpace
from tilesmith.tuner.transfer import Experience, experience
from tilesmith.tuner.tune import tune

TARGET = parse_target("x86:avx2;cores=1")
CEILINGS = default_ceilings(TARGET, 1)
SETTINGS = Transfer()
MACHINE = "a made-up machine"


class Played:
    """Takes what the analytic model says, times a bias of the structure; on a machine of its own."""

    name, capacity, machine, ceilings = "played", 4, MACHINE, CEILINGS

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._waiting: list[Job] = []

    def submit(self, job: Job) -> None:
        self.jobs.append(job)
        self._waiting.append(job)

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        waiting, self._waiting = self._waiting, []
        return [(job.number, self._answer(job)) for job in waiting]

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        return [(job.number, self._answer(job)) for job in jobs]

    def _answer(self, job: Job) -> Measurement:
        if not job.sketch:
            return Measurement(Status.OK, (1.0,))
        space = space_of(job.program, job.sketch)
        places = tuple(p.values.index(job.config[p.name]) for p in space.config_spaces[0].parameters)
        seconds = float(space.prior(population(0, [Candidate(0, places)], len(places)))[0])
        return Measurement(Status.OK, (seconds * (1.0 + len(job.sketch) % 7 / 7),))

    def close(self) -> None:
        pass

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@cache  # trials are told one by one, of few structures
def space_of(program: str, sketch: str) -> TaskSpace:
    return TaskSpace(Task.of(parse(program), TARGET, 1), CEILINGS, (parse_sketch(sketch),))


def searched(program: Program, db: Path, trials: int) -> Played:
    runner = Played()
    tune(program, target=TARGET, threads=1, runner=runner, trials=trials, db=db, effort="quick", progress=False)
    return runner


@cache
def known(program: Program, db: Path, settings: Transfer = SETTINGS) -> tuple[Problem, Experience]:
    task = Task.of(program, TARGET, 1)
    problem = problem_of(program, TaskSpace(task, CEILINGS), Machine(machine_key(MACHINE), MACHINE))
    with Database(db) as database:
        return problem, experience(task, problem, database, lambda one: one.sketches, settings)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("transfer") / "a.sqlite"
    for program in (matmul(96, 64, 80), matmul(48, 64, 40), softmax(32, 64)):
        searched(program, path, 12)
    return path


def test_nothing_comes_from_an_empty_database(tmp_path: Path) -> None:
    assert known(matmul(64, 64, 64), tmp_path / "empty.sqlite")[1] == Experience()


def test_the_best_of_nearby_shapes_become_valid_candidates_of_this_one(db: Path) -> None:
    problem, found = known(matmul(61, 67, 71), db)
    assert 1 <= len(found.seeds) <= SETTINGS.seeds and len(set(found.seeds)) == len(found.seeds)
    for seed in found.seeds:
        rows = population(seed.sketch, [seed], len(seed.choices))
        assert problem.space.valid(rows)[0] and problem.space.sketch_text(seed.sketch)


def test_samples_of_the_family_and_of_others_look_like_this_tasks_own(db: Path) -> None:
    problem, found = known(matmul(61, 67, 71), db)
    assert len(found.samples) == 3
    own = described(problem.space, population(1, [Candidate(1, problem.space.config_spaces[1].default)], len(
        problem.space.config_spaces[1].parameters)))  # fmt: skip
    for number, samples in enumerate(found.samples, 1):
        assert samples.features.shape == (len(samples), own.shape[1]) and 8 <= len(samples) <= 13
        assert set(samples.task) == {number} and np.isfinite(samples.prior).all()
    family, other = found.samples[0], found.samples[2]
    sketches = len(problem.space.config_spaces)
    assert (family.features[:, -sketches:].sum(axis=1) == 1).all(), "its structures are this task's structures"
    assert (other.features[:, -sketches:].sum(axis=1) <= 1).all()
    assert np.isfinite(other.features[:, : -sketches - 1]).any()


def test_shapes_that_are_far_away_and_other_machines_say_nothing(db: Path) -> None:
    far = known(matmul(4096, 4096, 4096), db)[1]
    assert not far.seeds
    assert not known(matmul(61, 67, 71), db, Transfer(shapes=0, others=0))[1].samples


def test_seeds_are_measured_first_and_once(db: Path) -> None:
    problem, found = known(matmul(61, 67, 71), db)
    runner = searched(matmul(61, 67, 71), db, 10)
    first = [(job.sketch, dict(job.config)) for job in runner.jobs if job.purpose is Purpose.SEARCH]
    wanted = [(problem.space.sketch_text(s.sketch), dict(problem.space.config(s))) for s in found.seeds]
    assert all(seed in first[: len(wanted) + 1] for seed in wanted)
    assert len(first) == len({(sketch, tuple(config.items())) for sketch, config in first}) == 10
