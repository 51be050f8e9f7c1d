"""Questions that a database answers without a look at all of its records: the same answers as with one."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from helpers.command_line.records import identity
from tilesmith.measure.result import Failure, Measurement, Purpose, Status
from tilesmith.tuner.records.data import Machine, StoredSketch, Trial, canonical_config
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.ranking import rank

FAILED = Measurement(Status.CRASH, failure=Failure("time", "signal 11"), builder="a")
WRONG = Measurement(Status.WRONG_RESULT, failure=Failure("check", "element 3"), builder="a")


def filled(path: Path, seed: int) -> Database:
    """Trials and confirmations as searches leave them: ties, failures, two builders and machines, some found out."""
    generator, task, database = random.Random(seed), identity(), Database(path)
    database.add_task(task)
    for machine in ("m1", "m2"):
        database.add_machine(Machine(machine, machine))
    database.add_sketches([StoredSketch("", "")])
    run = database.begin_run(task.key, "{}").id
    for number in range(60):
        config = canonical_config({"n": number % 40})
        place = generator.choice(["m1", "m2"])
        builder = generator.choice(["a", "b"])
        seconds = generator.choice([1e-3, 2e-3, 3e-3, 4e-3]) * generator.choice([1.0, 1.0, 1.1])
        ended = Measurement(Status.OK, (seconds,), abandoned=generator.random() < 0.2, builder=builder)
        ended = FAILED if generator.random() < 0.1 else ended
        database.add(Trial(task.key, "", config, place, run, Purpose.SEARCH, ended, float(number)))
        if generator.random() < 0.2:
            again = Measurement(Status.OK, (seconds * generator.choice([0.9, 1.2]),), builder=builder)
            again = WRONG if generator.random() < 0.4 else again
            database.add(Trial(task.key, "", config, place, run, Purpose.CONFIRM, again, 100.0 + number))
    return database


@pytest.mark.parametrize("seed", range(12))
def test_the_best_are_those_of_all_records(tmp_path: Path, seed: int) -> None:
    task = identity().key
    with filled(tmp_path / "a.sqlite", seed) as database:
        for machine in (None, "m1"):
            for builder in (None, "a"):
                wanted = rank(database.records(task, machine=machine, builder=builder))
                for count in (1, 3, 8):
                    assert database.best(task, count, machine=machine, builder=builder) == wanted[:count]


def test_counts_follow_what_is_written_once_and_again(tmp_path: Path) -> None:
    path, task = tmp_path / "a.sqlite", identity().key
    with filled(path, 1) as database:
        searched = len(database.records(task, purpose=Purpose.SEARCH))
        assert database.searched(task) == searched < 60  # some candidates came twice
        assert [one.key for one in database.tasks()] == [task]
    _as_before(path)
    with Database(path, read_only=True) as database:
        assert database.searched(task) == searched
        assert [one.key for one in database.tasks()] == [task]
    with Database(path) as database:  # brought up to date
        assert database.searched(task) == searched and database.searched("another") == 0
        assert [one.key for one in database.tasks()] == [task]


def _as_before(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        for statement in ("TRIGGER record_counted", "TABLE tally", "INDEX record_fastest", "TABLE sitting"):
            connection.execute(f"DROP {statement}")
        connection.execute("ALTER TABLE record DROP COLUMN in_model")
        connection.execute("PRAGMA user_version = 3")


def test_no_question_of_a_list_of_tasks_looks_at_every_record(tmp_path: Path) -> None:
    with filled(tmp_path / "a.sqlite", 2) as database:
        asked: list[str] = []
        database._connection.set_trace_callback(asked.append)
        (task,) = database.tasks()
        database.best(task.key)
        database.searched(task.key)
        database._connection.set_trace_callback(None)
        plans = [str(row[3]) for text in asked for row in database._connection.execute(f"EXPLAIN QUERY PLAN {text}")]
    assert len(asked) >= 4 and not [plan for plan in plans if plan.startswith("SCAN record")], plans


def test_a_list_of_tasks_costs_no_more_where_there_are_ten_times_the_records(tmp_path: Path) -> None:
    """Steps of SQLite's machine are counted: the clock of a busy machine tells nothing."""
    task, steps = identity(), list[int]()
    with Database(tmp_path / "a.sqlite") as database:
        database.add_task(task)
        database.add_machine(Machine("m1", "m1"))
        database.add_sketches([StoredSketch("", "")])
        run = database.begin_run(task.key, "{}").id
        for until in (40, 400):
            for number in range(database.count(), until):
                ended = Measurement(Status.OK, (1e-3 / (number % 37 + 1),), builder="a") if number % 5 else FAILED
                config = canonical_config({"n": number})
                database.add(Trial(task.key, "", config, "m1", run, Purpose.SEARCH, ended, float(number)))
            steps.append(0)
            database._connection.set_progress_handler(lambda: _one_more(steps), 1)
            assert [one.key for one in database.tasks()] == [task.key] and database.searched(task.key) == until
            assert database.best(task.key)[0].seconds == pytest.approx(1e-3 / 37)
            database._connection.set_progress_handler(None, 0)
    assert 0 < steps[1] < 1.5 * steps[0], steps


def _one_more(steps: list[int]) -> int:
    steps[-1] += 1
    return 0
