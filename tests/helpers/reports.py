"""Databases for reports: one from a stranger, and one of very many trials."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from helpers.command_line.records import CEILINGS, fill
from tilesmith import ops
from tilesmith.measure.result import Failure, Measurement, Purpose, Status
from tilesmith.schedules.space import Candidate
from tilesmith.schedules.task import Task
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tuner.models.tasks import ModelTask
from tilesmith.tuner.problem import Problem, problem_of
from tilesmith.tuner.records.data import Machine, StoredSketch, TaskIdentity, Trial, canonical_config
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.task_space import TaskSpace

EVIL = "</script><script>document.documentElement.dataset.owned = 1</script><img src=x onerror=alert(1)>\x1b[31m\u2028\x00&lt;"
EVENTS = 'a" onmouseover="document.documentElement.dataset.owned = 1" <b>%{x}</b> <a href="javascript:alert(1)">x</a>'


def fill_strange(path: Path) -> None:
    """The records of `fill`, and some whose names, errors, builders, devices and machines are somebody's markup."""
    task = fill(path)
    with Database(path) as database:
        database.add_task(replace(task, display=f"# {EVENTS} </script>\n{task.display}"))
        database.add_machine(Machine("m2", json.dumps({"gpu": {"name": EVIL}}), CEILINGS.to_json()))
        database.add_sketches([StoredSketch("evil", f"sketch {EVIL}\n")])
        run = database.begin_run(task.key, "{}").id
        failed = Measurement(Status.CRASH, failure=Failure(EVIL, EVIL), builder=EVIL, device=EVIL)
        fast = Measurement(Status.OK, (5e-4, 6e-4), builder=EVIL, device=EVIL)
        for number, end in enumerate((failed, fast)):
            config = canonical_config({EVIL: EVIL, EVENTS: number})
            database.add(Trial(task.key, "evil", config, "m2", run, Purpose.SEARCH, end, 20.0 + number, number))
        database.end_run(run, finished=True, spent=2.0)


def fill_kernels(path: Path, kernels: Sequence[ModelTask], times: Sequence[float]) -> None:
    """A trial of each of these times for each kernel of a model, all of the unscheduled nest, with different configs."""
    with Database(path) as database:
        database.add_machine(Machine("m1", "a machine", CEILINGS.to_json()))
        database.add_sketches([StoredSketch("", "")])
        for task in (kernel.task for kernel in kernels):
            keys = program_key(task.program), family_key(task.program)
            known = TaskIdentity(*keys, task.text, task.text, task.target.key, task.target.text, task.threads)
            database.add_task(known)
            run = database.begin_run(known.key, "{}").id
            for number, seconds in enumerate(times):
                end, config = Measurement(Status.OK, (seconds,), builder="b"), canonical_config({"n": number})
                database.add(Trial(known.key, "", config, "m1", run, Purpose.SEARCH, end, float(number)))


def fill_many(path: Path, count: int) -> None:
    """So many trials of a matrix product, of all of its sketches, with times that the model might have."""
    target = parse_target("x86:avx2")
    program = ops.matmul(m=512, n=512, k=512)
    space = TaskSpace(Task.of(program, target, 1, "default"), default_ceilings(target, 1))
    problem = problem_of(program, space, Machine("m1", "a machine", space.ceilings.to_json()))
    generator = np.random.default_rng(0)
    with Database(path) as database:
        database.add_task(problem.identity)
        database.add_machine(problem.machine)
        database.add_sketches({problem.sketch(n) for n in range(len(space.config_spaces))})
        run = database.begin_run(problem.identity.key, "{}").id
        database._connection.execute("BEGIN")  # one commit for all: what a search would not do
        for number in range(count):
            database.add(_trial(problem, generator, run, number, count))
        database._connection.execute("COMMIT")
        database.end_run(run, finished=True, spent=count / 40)


def _trial(problem: Problem, generator: np.random.Generator, run: str, number: int, count: int) -> Trial:
    spaces = problem.space.config_spaces
    sketch = int(generator.integers(len(spaces)))
    choices = tuple(int(generator.integers(len(parameter.values))) for parameter in spaces[sketch].parameters)
    key, config = problem.names(Candidate(sketch, choices))
    if generator.random() < 0.05:
        status = (Status.CRASH, Status.TIMEOUT, Status.WRONG_RESULT)[number % 3]
        end = Measurement(status, failure=Failure("time", f"signal {number % 4}"), builder="b")
    else:
        seconds = float(np.exp(generator.normal(-5.4 - 0.8 * number / count, 0.4))) + 2e-3
        end = Measurement(Status.OK, (seconds,), compile_seconds=0.02, measure_seconds=0.01, builder="b")
    return Trial(problem.identity.key, key, config, "m1", run, Purpose.SEARCH, end, 1.8e9 + number / 40, number / 40)
