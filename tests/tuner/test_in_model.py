"""Records of the kernels of models are kept apart from those of kernels by themselves."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tilesmith.codegen.backends.cpu import builder_version
from tilesmith.measure.result import Measurement, Purpose, Status
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tuner.apply.tiers import picks
from tilesmith.tuner.display import task_title
from tilesmith.tuner.records import data as records
from tilesmith.tuner.records import schema
from tilesmith.tuner.records.data import Machine, TaskIdentity, Trial
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.log import export_log, import_log

HOST = parse_target("host")
PROGRAM = ops.matmul(24, 20, 28, constants=("B",))
SECONDS = {False: 1e-3, True: 2e-3}


def identity(inside: bool) -> TaskIdentity:
    task = Task.of(PROGRAM, HOST, 1, in_model=inside)
    found = TaskIdentity(
        program_key(task.program), family_key(task.program), task.text, print_program(PROGRAM), HOST.key, HOST.text, 1,
        in_model=inside,
    )  # fmt: skip
    assert found.key == task.key
    return found


def remember(path: Path, inside: bool) -> None:
    owner, sketch = identity(inside), Task.of(PROGRAM, HOST, 1).sketches[0]
    with Database(path) as database:
        database.add_task(owner)
        database.add_machine(Machine("m", "a machine"))
        database.add_sketches([records.StoredSketch(sketch.key, sketch.text)])
        run = database.begin_run(owner.key, "{}").id
        measurement = Measurement(Status.OK, (SECONDS[inside],), builder=builder_version())
        database.add(Trial(owner.key, sketch.key, "{}", "m", run, Purpose.SEARCH, measurement, 1.0))


def test_a_kernel_of_a_model_has_its_own_key() -> None:
    assert identity(True).key != identity(False).key
    assert records.task_key("p", "t", 1, in_model=True).startswith("590c8ea40415")  # stored everywhere
    assert "in a model" in task_title(identity(True)) and "in a model" not in task_title(identity(False))


@pytest.mark.parametrize("first", [False, True])
def test_records_are_kept_apart_and_each_kind_serves_where_the_other_is_missing(tmp_path: Path, first: bool) -> None:
    db = tmp_path / "a.sqlite"
    tasks = {inside: Task.of(PROGRAM, HOST, 1, in_model=inside) for inside in (False, True)}
    remember(db, first)
    found = next(picks(tasks[not first], db))
    assert found.provenance.tier == "near" and found.provenance.note.endswith("in a model" if first else "by itself")
    remember(db, not first)
    for inside, task in tasks.items():
        pick = next(picks(task, db))
        assert (pick.provenance.tier, pick.provenance.record) == ("exact", 1 + (inside != first))


def test_a_log_says_which_records_are_of_models(tmp_path: Path) -> None:
    for inside in (False, True):
        remember(tmp_path / "a.sqlite", inside)
    with Database(tmp_path / "a.sqlite") as database:
        export_log(database, tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert sorted((line.get("in_model", False), line["times"][0]) for line in lines) == sorted(SECONDS.items())
    with Database(tmp_path / "b.sqlite") as database:
        import_log(tmp_path / "a.jsonl", database)
        assert {one.in_model: one.key for one in database.tasks()} == {
            inside: identity(inside).key for inside in SECONDS
        }
        assert [database.best(identity(inside).key)[0].seconds for inside in SECONDS] == list(SECONDS.values())


def test_a_database_of_before_has_records_of_kernels_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    remember(path, False)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE record DROP COLUMN in_model")
        connection.execute(f"PRAGMA user_version = {schema.VERSION - 1}")
    for read_only in (True, False):  # as it is, and brought up to date
        with Database(path, read_only=read_only) as database:
            assert [one.in_model for one in database.tasks()] == [False]
