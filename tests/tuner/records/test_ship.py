"""Shipped records: few, small, checked; what a fresh install is served from them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from helpers.command_line.records import CEILINGS, Call, caller
from tilesmith.measure.result import Measurement, Purpose, Status
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tuner.apply.tiers import AnalyticModel
from tilesmith.tuner.records import ship as shipping
from tilesmith.tuner.records import sources
from tilesmith.tuner.records.data import Machine, StoredSketch, TaskIdentity, Trial, canonical_config
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.log import read_log
from tilesmith.tuner.records.ship import RUN, check_shipped, ship

pytestmark = pytest.mark.usefixtures("cache_with_drafts")
LOGS = Path(sources.__file__).parents[2] / "logs"


def identity(task: Task) -> TaskIdentity:
    keys = program_key(task.program), family_key(task.program)
    return TaskIdentity(*keys, task.text, task.text, task.target.key, task.target.text, task.threads)


def filled(path: Path, task: Task, *seconds: float) -> Database:
    """A database with the picks of the analytic model as records, each with its seconds."""
    database, known = Database(path), identity(task)
    picks = AnalyticModel(task).picks()
    assert len(picks) >= len(seconds)
    database.add_task(known)
    database.add_machine(Machine("m1", "a machine", CEILINGS.to_json()))
    run = database.begin_run(known.key, "{}").id
    for number, (pick, spent) in enumerate(zip(picks, seconds, strict=False)):
        database.add_sketches([StoredSketch(pick.sketch.key, pick.sketch.text)])
        times = (spent, spent * 1.123456789, spent * 1.2)
        measured = Measurement(Status.OK, times, builder="b", compile_seconds=0.05, device="d")
        config = canonical_config(pick.config)
        database.add(
            Trial(known.key, pick.sketch.key, config, "m1", run, Purpose.SEARCH, measured, 1000.25 + number, 0.25)
        )
    return database


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(monkeypatch, capsys)


def task(m: int = 24) -> Task:
    return Task.of(ts.ops.matmul(m=m, n=40, k=33), parse_target("host"), 1)


def test_the_best_of_each_task_are_shipped_with_no_more_than_is_asked_of_them(tmp_path: Path) -> None:
    file = tmp_path / "machine.jsonl"
    with filled(tmp_path / "a.db", task(), 3e-3, 1e-3, 2e-3) as database:
        found = ship(database, file)
    assert (found.records, found.tasks, found.wrong, found.bytes) == (2, 1, (), file.stat().st_size)
    entries, _ = read_log(file)
    assert sorted(e.trial.measurement.times for e in entries) == [(0.00112346,), (0.00224691,)]
    assert {(e.trial.run, e.trial.elapsed, e.trial.measurement.device) for e in entries} == {(RUN, 0.0, "")}
    before = file.read_bytes()
    with Database(tmp_path / "a.db", read_only=True) as database:
        ship(database, file)
    assert file.read_bytes() == before, "shipping twice changes nothing"


def test_what_is_shipped_already_stays_unless_something_is_better(tmp_path: Path) -> None:
    file = tmp_path / "machine.jsonl"
    with filled(tmp_path / "a.db", task(), 3e-3, 2e-3) as database:
        ship(database, file, best=1)
    with filled(tmp_path / "b.db", task(25), 1e-3) as database:
        assert ship(database, file, best=1).tasks == 2
    with filled(tmp_path / "c.db", task(), 1e-3) as database:
        assert ship(database, file, best=1).records == 2
    times = {e.task.key: e.trial.measurement.times for e in read_log(file)[0]}
    assert times[identity(task()).key] == (0.00112346,)


def test_a_fresh_install_is_served_what_was_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "machine.jsonl"
    with filled(tmp_path / "a.db", task(), 3e-3, 1e-3) as database:
        ship(database, file)
    monkeypatch.setattr(sources, "shipped_logs", lambda: (file,))
    monkeypatch.setenv("TILESMITH_SHIPPED", "1")
    kernel = ts.compile(ts.ops.matmul(m=24, n=40, k=33), threads=1, db=tmp_path / "none.sqlite")
    assert kernel.provenance.tier == "exact" and kernel.provenance.log == "machine.jsonl"  # type: ignore[attr-defined]
    a, b = np.ones((24, 33), np.float32), np.ones((33, 40), np.float32)
    np.testing.assert_allclose(kernel(a, b), 33)


def test_what_no_version_can_use_is_told(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "machine.jsonl"
    with filled(tmp_path / "a.db", task(), 1e-3) as database:
        ship(database, file)
    line = json.loads(file.read_text())
    wrong = [
        {**line, "sketch": line["sketch"].replace("split(", "splat(", 1)},
        {**line, "config": {**line["config"], next(iter(line["config"])): 99999}},
        {**line, "status": "crash"},
        {**line, "threads": 0},
    ]
    file.write_text("".join(json.dumps(one) + "\n" for one in (line, *wrong)))
    assert len(check_shipped(file).wrong) == len(wrong)
    answer = call("log", "ship", file, "--db", tmp_path / "a.db")
    assert answer.code == 0 and "1 records of 1 tasks" in answer.out, "what is wrong is not written again"


def test_records_of_named_models_alone_are_shipped(tmp_path: Path, call: Call) -> None:
    with filled(tmp_path / "a.db", task(), 1e-3):
        pass
    with filled(tmp_path / "a.db", task(25), 1e-3):
        pass
    (tmp_path / "one.tensor").write_text(str(ts.ops.matmul(m=25, n=40, k=33)))
    answer = call("log", "ship", tmp_path / "x.jsonl", tmp_path / "one.tensor", "--db", tmp_path / "a.db")
    assert answer.code == 0 and "1 records of 1 tasks" in answer.out
    (tmp_path / "two.tensor").write_text(str(ts.ops.matmul(m=26, n=40, k=33)))
    answer = call("log", "ship", tmp_path / "x.jsonl", tmp_path / "two.tensor", "--db", tmp_path / "a.db")
    assert answer.code == 2 and "no records of these" in answer.err


@pytest.mark.parametrize("file", sorted(LOGS.glob("*.jsonl")), ids=lambda file: file.name)
def test_what_this_project_ships_can_be_used(file: Path) -> None:
    found = check_shipped(file)
    assert not found.wrong and found.records <= shipping.BEST * found.tasks and found.bytes < 4_000_000
