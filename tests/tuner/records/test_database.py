"""The database: nothing is lost, several may write, and what cannot work is said clearly."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tilesmith.common.errors import DatabaseError
from tilesmith.measure.result import Failure, Measurement, Purpose, Status
from tilesmith.tuner.records import schema
from tilesmith.tuner.records.data import Machine, Record, StoredSketch, TaskIdentity, Trial, canonical_config, task_key
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.ranking import rank

TASK = TaskIdentity("p" * 64, "f" * 64, "program text", "display text", "t" * 64, "x86:avx2", 2)
MACHINE = Machine("m1", "cpu of a test", '{"flops": {}}')
SKETCHES = (StoredSketch("", ""), StoredSketch("s1", "split ..."))


def prepare(database: Database, request: str = "{}") -> str:
    database.add_task(TASK)
    database.add_sketches(SKETCHES)
    database.add_machine(MACHINE)
    return database.begin_run(TASK.key, request).id


def trial(run: str, number: int, seconds: float | None = 1e-3, **changes: object) -> Trial:
    measurement = (
        Measurement(Status.OK, times=(seconds, seconds * 1.1, seconds * 0.9), builder="b1", compile_seconds=0.05)
        if seconds is not None
        else Measurement(Status.CRASH, failure=Failure("time", "signal 11"), builder="b1")
    )
    made = Trial(
        TASK.key, "s1", canonical_config({"i": number}), "m1", run, Purpose.SEARCH, measurement, 100.0 + number
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def writer(path: Path, start: int, count: int) -> None:
    with Database(path) as database:
        run = prepare(database, f"writer {start}")
        for number in range(start, start + count):
            database.add(trial(run, number))


def endless_writer(path: Path, ready: object) -> None:
    with Database(path) as database:
        run = prepare(database)
        for number in range(1_000_000):
            database.add(trial(run, number))
            if number == 50:
                ready.set()  # type: ignore[attr-defined]


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        run = prepare(database)
        made = [trial(run, 1), trial(run, 2, None), trial(run, 3, elapsed=4.5)]
        for one in made:
            database.add(one)
    with Database(tmp_path / "a.db", read_only=True) as database:
        found = database.records(TASK.key)
        assert [r.trial for r in found] == made
        assert database.record(found[1].id) == found[1]
        assert database.record(99) is None
        assert found[0].config == {"i": 1}
        assert database.task(TASK.key) == TASK
        assert database.tasks() == [TASK] == database.family_tasks(TASK.family_key)
        assert database.sketch("s1") == SKETCHES[1] and database.machine("m1") == MACHINE
        assert database.run_records(run) == found
        assert database.program_tasks(TASK.program_key) == [TASK] and database.program_tasks("other") == []


def test_keys_depend_on_program_target_and_threads() -> None:
    keys = {task_key("p", "t", 1), task_key("p", "t", 2), task_key("q", "t", 1), task_key("p", "u", 1)}
    assert len(keys) == 4 and all(len(k) == 64 for k in keys)
    assert task_key("p", "t", 1).startswith("6541e3b673afca22")  # stored everywhere: must never change
    assert canonical_config({"b": True, "a": 1}) == canonical_config({"a": 1, "b": True}) == '{"a":1,"b":true}'


def test_a_second_trial_of_a_candidate_replaces_the_first(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        run = prepare(database)
        database.add(trial(run, 1, 5e-3))
        identifier = database.records(TASK.key)[0].id
        database.add(trial(run, 1, 4e-3))
        database.add(trial(run, 1, 3e-3, purpose=Purpose.CONFIRM))
        other = trial(run, 1, 2e-3)
        database.add(replace(other, measurement=replace(other.measurement, builder="b2")))
        records = database.records(TASK.key)
        assert [(r.seconds, r.trial.purpose, r.trial.measurement.builder) for r in records] == [
            (4e-3, Purpose.SEARCH, "b1"), (3e-3, Purpose.CONFIRM, "b1"), (2e-3, Purpose.SEARCH, "b2")]  # fmt: skip
        assert records[0].id == identifier
        assert len(database.records(TASK.key, builder="b1", purpose=Purpose.SEARCH)) == 1
        assert database.records(TASK.key, machine="elsewhere") == []


def ranked(*entries: tuple[int, float | None, Purpose]) -> list[tuple[int, float]]:
    trials = [trial("r", config, seconds, purpose=purpose) for config, seconds, purpose in entries]
    records = [Record(number, one) for number, one in enumerate(trials)]
    return [(int(r.config["i"]), r.seconds) for r in rank(records)]


def test_confirmed_times_come_before_searched_ones() -> None:
    search, confirm = Purpose.SEARCH, Purpose.CONFIRM
    assert ranked((1, 1.0, search), (2, 0.9, search), (3, None, search)) == [(2, 0.9), (1, 1.0)]
    # 2 looked best alone, 1 won side by side; 3 lies between their searched times and was not worth confirming
    both = ((1, 1.0, search), (2, 0.9, search), (3, 0.95, search), (1, 1.01, confirm), (2, 1.05, confirm))
    assert ranked(*both) == [(1, 1.01), (2, 1.05), (3, 0.95)]
    # 4 was found later and beats all that was searched before: it leads although nobody confirmed it
    assert ranked(*both, (4, 0.5, search)) == [(4, 0.5), (1, 1.01), (2, 1.05), (3, 0.95)]


def test_what_was_chosen_inside_of_a_model_comes_first_the_latest_before_all(tmp_path: Path) -> None:
    confirmed = trial("r", 1, 1.0, purpose=Purpose.CONFIRM)
    before = replace(trial("r", 2, 1.2, purpose=Purpose.MODEL), created=5.0)
    latest = replace(trial("r", 3, 1.3, purpose=Purpose.MODEL), created=6.0)
    found = [
        Record(n, one) for n, one in enumerate((confirmed, trial("r", 2, 0.5), before, latest, trial("r", 4, 2.0)))
    ]
    assert [record.id for record in rank(found)] == [3, 2, 0, 4]
    with Database(tmp_path / "a.db") as database:
        run = prepare(database, "request")
        for record in found:
            database.add(replace(record.trial, run=run))
        for count in range(1, 5):
            best = database.best(TASK.key, count)
            assert [r.trial for r in best] == [r.trial for r in rank(database.records(TASK.key))[:count]]


@pytest.mark.parametrize("status", [Status.WRONG_RESULT, Status.CRASH])
def test_what_a_confirmation_found_out_is_no_success(status: Status) -> None:
    def record(number: int, config: int, purpose: Purpose, ended: Status, builder: str = "b1") -> Record:
        times = (1e-3,) if ended is Status.OK else ()
        return Record(
            number, trial("r", config, purpose=purpose, measurement=Measurement(ended, times, builder=builder))
        )

    search, confirm = Purpose.SEARCH, Purpose.CONFIRM
    found_out = [record(1, 1, search, Status.OK), record(2, 1, confirm, status)]
    assert rank(found_out) == []
    assert rank([record(1, 1, search, Status.OK), record(2, 1, confirm, Status.UNSTABLE)]) != [], "noise says nothing"
    assert [r.id for r in rank([*found_out, record(3, 2, search, Status.OK)])] == [3]
    assert [r.id for r in rank([*found_out, record(3, 1, search, Status.OK, "b2")])] == [3], "another code generator"


def test_an_abandoned_trial_is_never_ranked() -> None:
    slow = trial("r", 1, 1.0)
    slow = replace(slow, measurement=replace(slow.measurement, abandoned=True))
    assert rank([Record(1, slow)]) == []


def test_a_cut_run_is_continued_and_a_finished_one_is_not(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        run = prepare(database, "request")
        database.add(trial(run, 1, elapsed=2.0))
        database.add(trial(run, 1, purpose=Purpose.CONFIRM, elapsed=9.0))
        database.end_run(run, finished=False, spent=3.0)
        assert database.begin_run(TASK.key, "another request").id != run
        again = database.begin_run(TASK.key, "request")
        assert (again.id, again.trials, again.spent) == (run, 1, 3.0)
        database.end_run(run, finished=True, spent=5.0)
        assert database.begin_run(TASK.key, "request").id != run
        assert [r.state for r in database.runs(TASK.key)].count("finished") == 1


def test_a_run_at_work_in_another_process_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Database(path) as database:
        run = prepare(database, "request")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE run SET owner = ?", (f"{os.uname().nodename}/{os.getppid()}",))
    with Database(path) as database:
        assert database.begin_run(TASK.key, "request").id != run


def test_kill_loses_nothing_but_the_trial_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    child = context.Process(target=endless_writer, args=(path, ready))
    child.start()
    assert ready.wait(60)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    with Database(path) as database:
        numbers = [int(r.config["i"]) for r in database.records(TASK.key)]
        assert len(numbers) > 50 and numbers == list(range(len(numbers)))
        assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.begin_run(TASK.key, "{}").trials == len(numbers)  # and the run is taken up again


def test_processes_write_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=writer, args=(path, 1000 * n, 100)) for n in range(3)]  # the file is new to all
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0, 0]
    with Database(path) as database:
        found = {int(r.config["i"]) for r in database.records(TASK.key)}
        assert found == {1000 * n + k for n in range(3) for k in range(100)}


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and they must stay as they are\n" * 100)
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="not a database"):
        Database(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE address (name TEXT)")
    with pytest.raises(DatabaseError, match="another program"):
        Database(path)


def test_a_newer_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(DatabaseError, match="newer schema") as caught:
        Database(path)
    assert "upgrade" in str(caught.value)


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="folder does not exist") as caught:
        Database(tmp_path / "nowhere" / "a.db")
    assert "mkdir" in str(caught.value)
    with pytest.raises(DatabaseError, match="is a folder"):
        Database(tmp_path)
    for path in (tmp_path / "a.db", tmp_path / "nowhere" / "a.db"):
        with pytest.raises(DatabaseError, match="no such database"):
            Database(path, read_only=True)


def test_a_read_only_database_can_be_read_and_not_written(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        run = prepare(database)
        database.add(trial(run, 1))
    with Database(tmp_path / "a.db", read_only=True) as database:
        assert len(database.records(TASK.key)) == 1
        with pytest.raises(DatabaseError, match="cannot be written"):
            database.add_task(TASK)


def test_a_read_only_file_is_refused_before_any_work() -> None:
    """Run as an ordinary user: root may write everywhere."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        Database(path).close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if os.geteuid() == 0:
                    os.setuid(65534)
                assert Database(path, read_only=True).tasks() == []
                try:
                    Database(path)
                except DatabaseError as error:
                    code = 0 if "read-only" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        Path(folder).chmod(0o755)


def test_a_database_of_the_first_schema_still_opens(tmp_path: Path) -> None:
    """`schema_1.sql` was written by the first version and is never changed."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((Path(__file__).parents[2] / "data" / "schema_1.sql").read_text())
    with Database(path) as database:
        (task,) = database.tasks()
        best = database.best(task.key)[0]
        assert (best.config, best.seconds, best.trial.purpose) == ({"i": 2}, 0.002, Purpose.CONFIRM)
        assert len(database.records(task.key)) == 4
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (schema.VERSION,)


def test_writing_is_fast(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        run = prepare(database)
        start = time.process_time()
        for number in range(300):
            database.add(trial(run, number))
        assert time.process_time() - start < 1.0
