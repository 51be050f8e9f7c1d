"""Logs: what goes out comes back, whatever else stands in the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tilesmith.common.errors import ArgumentError
from tilesmith.measure.machine import machine_key
from tilesmith.measure.result import Failure, Measurement, Purpose, Status
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tuner.records.data import Machine, StoredSketch, TaskIdentity, Trial, canonical_config
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.log import check_log, export_log, import_log, merge_logs, read_log

PROGRAM = ops.matmul(m=64, n=48, k=32)
TASK = Task.of(PROGRAM, parse_target("x86:avx2"), 2)
IDENTITY = TaskIdentity(
    program_key(TASK.program),
    family_key(TASK.program),
    TASK.text,
    print_program(PROGRAM),
    TASK.target.key,
    TASK.target.text,
    2,
)
SKETCH = StoredSketch(TASK.sketches[1].key, TASK.sketches[1].text)
MACHINE = Machine(machine_key("a processor"), "a processor", '{"flops": {}}')


def trial(run: str, number: int, seconds: float | None = 1e-3, purpose: Purpose = Purpose.SEARCH) -> Trial:
    measurement = (
        Measurement(Status.OK, (seconds, seconds * 1.25), builder="b1", compile_seconds=0.05, device="cpu")
        if seconds is not None
        else Measurement(Status.WRONG_RESULT, failure=Failure("verify", 'off by "1"\nat [3, 4]'), builder="b1")
    )
    config = canonical_config({"i.tile": number, "pack": True, "order": "ikj"})
    created = 1000.5 + number + 500 * (purpose is Purpose.CONFIRM)
    return Trial(IDENTITY.key, SKETCH.key, config, MACHINE.key, run, purpose, measurement, created, 0.25)


def filled(path: Path, *numbers: int, seconds: float = 1e-3) -> Database:
    database = Database(path)
    database.add_task(IDENTITY)
    database.add_sketches([SKETCH, StoredSketch("", "")])
    database.add_machine(MACHINE)
    run = database.begin_run(IDENTITY.key, "{}").id
    for number in numbers:
        database.add(trial(run, number, seconds * number))
    database.add(trial(run, 99, None))
    database.add(trial(run, numbers[0], 2e-3, Purpose.CONFIRM))
    database.add(replace(trial(run, 77), sketch="", config="{}"))
    return database


def without_ids(database: Database) -> list[Trial]:
    return [r.trial for r in database.records(IDENTITY.key)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with filled(tmp_path / "a.db", 1, 2, 3) as database:
        assert export_log(database, tmp_path / "a.jsonl") == 6
    return tmp_path / "a.jsonl"


def test_what_is_exported_can_be_imported_and_is_the_same(tmp_path: Path, log: Path) -> None:
    with Database(tmp_path / "a.db") as first, Database(tmp_path / "b.db") as second:
        report = import_log(log, second)
        assert (report.new, report.known, report.bad) == (6, 0, ())
        assert without_ids(second) == without_ids(first)
        assert second.tasks() == [IDENTITY]
        assert second.sketch(SKETCH.key) == SKETCH and second.machine(MACHINE.key) == MACHINE
        export_log(second, tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == log.read_bytes()


def test_importing_twice_changes_nothing(tmp_path: Path, log: Path) -> None:
    with Database(tmp_path / "b.db") as database:
        import_log(log, database)
        before = database.records(IDENTITY.key)
        again = import_log(log, database)
        assert (again.new, again.known) == (0, 6)
        assert database.records(IDENTITY.key) == before


def test_the_newer_of_two_records_of_a_candidate_stays(tmp_path: Path, log: Path) -> None:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line, created in zip(lines[:2], (1.0, 9e9), strict=True):
        line["created"], line["times"] = created, [0.5]
    changed = tmp_path / "c.jsonl"
    changed.write_text("".join(json.dumps(line) + "\n" for line in lines[:2]))
    with Database(tmp_path / "a.db") as database:
        report = import_log(changed, database)
        assert (report.new, report.known) == (1, 1)
        assert [t.measurement.times == (0.5,) for t in without_ids(database)].count(True) == 1


def test_a_line_stands_for_itself(log: Path) -> None:
    line = json.loads(log.read_text().splitlines()[0])
    assert list(line)[:5] == ["format", "program", "target", "threads", "sketch"]
    assert line["program"] == print_program(PROGRAM)
    assert line["sketch"] == SKETCH.text
    assert line["config"] == {"i.tile": 1, "order": "ikj", "pack": True}
    assert line["config"]["pack"] is True
    assert "abandoned" not in line  # what says nothing is left away


def test_new_records_are_new_lines_and_the_old_ones_stay(tmp_path: Path, log: Path) -> None:
    before = log.read_text().splitlines()
    with Database(tmp_path / "a.db") as database:
        database.add_task(IDENTITY)
        database.add(replace(trial(database.runs(IDENTITY.key)[0].id, 5), created=5000.0))
        export_log(database, log)
    after = log.read_text().splitlines()
    assert after[:-1] == before and len(after) == len(before) + 1


BAD = {
    "torn in the middle": '{"format":1,"program":"inp',
    "no json": "hello",
    "of another format": '{"format":2}',
    "binary": "\x00\x01",
    "a list": "[]",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_reported_and_skipped(tmp_path: Path, log: Path, bad: str) -> None:
    good = log.read_text().splitlines()
    log.write_text("\n".join([good[0], bad, *good[1:]]) + "\n")
    with Database(tmp_path / "b.db") as database:
        report = import_log(log, database)
    assert report.new == 6
    assert [b.number for b in report.bad] == [2]
    assert str(report.bad[0]).startswith(f"{log}:2: ")


CHANGES = {
    "program": ("program", "input A: f32[4]\nB[i: 4] = C[i]\nreturn B\n"),
    "target": ("target", "z80"),
    "sketch": ("sketch", "sketch x\nstep __import__('os').system('touch /tmp/executed')\n"),
    "a nested sketch": ("sketch", "sketch x\nstep split(" + "(" * 5000 + "\n"),
    "threads": ("threads", 0),
    "status": ("status", "great"),
    "times": ("times", [-1.0]),
    "no times": ("times", []),
    "config": ("config", {"i.tile": [1]}),
    "an unknown name": ("colour", "red"),
}


@pytest.mark.parametrize(("name", "value"), CHANGES.values(), ids=CHANGES.keys())
def test_nonsense_in_a_field_is_reported_and_never_run(tmp_path: Path, log: Path, name: str, value: object) -> None:
    line = json.loads(log.read_text().splitlines()[0])
    log.write_text(json.dumps({**line, name: value}) + "\n")
    report = check_log(log)
    assert report.new == 0 and len(report.bad) == 1
    assert not Path("/tmp/executed").exists()


def test_a_torn_last_line_is_told_as_such(log: Path) -> None:
    whole = log.read_bytes()
    log.write_bytes(whole[:-40])
    report = check_log(log)
    assert report.new == 5
    assert "torn" in report.bad[0].problem and report.bad[0].number == 6


def test_logs_are_merged(tmp_path: Path, log: Path) -> None:
    with filled(tmp_path / "c.db", 3, 4, 5) as database:
        export_log(database, tmp_path / "c.jsonl")
    report = merge_logs([log, tmp_path / "c.jsonl"], tmp_path / "out.jsonl")
    entries, bad = read_log(tmp_path / "out.jsonl")
    assert report.new == len(entries) == len({e.key for e in entries}) == 9 and not bad
    assert report.known == 12 - 9
    again = merge_logs([tmp_path / "out.jsonl", log], tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
    assert again.new == 9


def test_a_missing_log_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot be read"):
        check_log(tmp_path / "none.jsonl")
