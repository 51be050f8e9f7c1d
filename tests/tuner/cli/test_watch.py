"""`tune watch`: what a database alone tells of a search that runs, was killed, or has ended."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.command_line.records import Call, fill, identity
from tilesmith.measure.result import Measurement, Purpose, Status
from tilesmith.tuner.records.data import Machine, StoredSketch, Trial
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.searches import latest_searches

PRODUCT = ("matmul", "m=96", "n=96", "k=96")
WORDS = ("run", *PRODUCT, "--trials", "4000", "--strategy", "random", "--threads", "1", "--no-progress")


def until(path: Path, trials: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 90
    while time.monotonic() < end and process.poll() is None:
        if path.exists() and path.stat().st_size:
            found = latest_searches(path)
            if found and found[0].trials >= trials:
                return
        time.sleep(0.02)
    pytest.fail("the search has made no trials")


def test_a_search_in_another_process_is_seen_while_it_runs_and_after_it_was_killed(
    call: Call, tmp_path: Path, kept_ceilings: Path
) -> None:
    path = tmp_path / "own.sqlite"
    Database(path).close()
    environment = {**os.environ, "TILESMITH_CACHE": str(kept_ceilings)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tilesmith", *WORDS, "--db", str(path)], env=environment, cwd=tmp_path
    )
    try:
        until(path, 3, process)
        running = call("watch", "--once", "--db", path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert running.code == 0, running.err
    assert "running" in running.out and "builder" in running.out and f"process {process.pid}" in running.out
    done, best = (
        re.search(r"(\d+)/4000 trials, best [\d.]+ GFLOP/s \([\d.]+% of", running.out),
        "matmul_f32_96x96x96" in running.out,
    )
    assert done is not None and int(done[1]) >= 3 and best and re.search(r"\d+:\d\d left", running.out)
    killed = call("watch", "--db", path)  # ends by itself: nobody is at work
    assert killed.code == 0 and "killed" in killed.out and "the same command continues it" in killed.out
    _as_before(path)
    old = call("watch", "--db", path)
    assert "killed" in old.out and "/4000 trials" in old.out and "not told" in old.out


def _as_before(path: Path) -> None:
    """A database of before there were sittings."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE sitting")
        connection.execute("PRAGMA user_version = 3")


def test_a_search_that_ended_is_told_with_its_failures(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "known.sqlite"
    fill(path)
    answer = call("watch", "--db", path)
    assert answer.code == 0
    assert "finished" in answer.out and "2 crash, 1 invalid" in answer.out and "6" in answer.out
    assert re.search(r"6/?\d* trials, best [\d.]+ [GM]", answer.out), answer.out


def test_of_a_model_the_whole_is_told(call: Call, tmp_path: Path) -> None:
    path, first, second = tmp_path / "model.sqlite", identity(1), identity(2)
    with Database(path) as database:
        database.add_machine(Machine("m", "a machine"))
        database.add_sketches([StoredSketch("", "")])
        for number, (task, seconds, count) in enumerate(((first, 1e-3, 3.0), (second, 2e-3, 1.0))):
            database.add_task(task)
            run = database.begin_run(task.key, '{"trials": 8}').id
            facts = {"model": "a net", "place": f"layer{number}", "count": count, "number": number, "machine": "m"}
            database.add_sitting(run, {**facts, "trials": 8, "seconds": None, "workers": "2 builders, 1 timer"})
            end = Measurement(Status.OK, (seconds,), builder="b")
            database.add(Trial(task.key, "", "{}", "m", run, Purpose.SEARCH, end, time.time(), 4.0))
    out = call("watch", "--once", "--db", path).out
    assert "a net" in out and "running" in out and "2/8 trials, 5 ms now (5 ms at first)" in out
    assert re.search(r"60%.*layer0", out) and re.search(r"40%.*layer1", out)


def test_a_view_that_goes_on_ends_with_the_search(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, task = tmp_path / "one.sqlite", identity()
    database = Database(path)
    database.add_task(task)
    run = database.begin_run(task.key, '{"trials": 5}').id
    looks = []

    def asleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            database.end_run(run, finished=True, spent=2.0)

    monkeypatch.setattr("tilesmith.tuner.cli.watch.time.sleep", asleep)
    answer = call("watch", "--every", "0.5", "--db", path)
    assert looks == [0.5, 0.5] and "0/5 trials" in answer.out and "finished" in answer.out


def test_where_nobody_searched_it_says_what_to_do(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    Database(path).close()
    answer = call("watch", "--db", path)
    assert answer.code == 2 and "no search was ever begun" in answer.err
