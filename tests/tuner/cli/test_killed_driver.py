"""A search on a cluster that is killed and started again: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from contracts.ray_cluster import Cluster, needs_ray
from tilesmith.measure.result import Purpose
from tilesmith.tuner.records.database import Database

pytestmark = needs_ray
TRIALS = 24


@pytest.mark.slow
def test_a_killed_search_continues_on_the_cluster(
    tmp_path: Path, kept_ceilings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(kept_ceilings))
    cluster = Cluster(1, processors=1)  # the second search needs what the first one holds
    path, address = tmp_path / "a.sqlite", tmp_path / "cluster.address"
    address.write_text(cluster.ray.address)
    command = [sys.executable, "-m", "tilesmith", "run", "matmul", "m=96", "n=96", "k=96", "--threads", "1"]
    command += ["--trials", str(TRIALS), "--no-progress", "--runner", str(address), "--db", str(path)]
    try:
        killed = []
        for wanted in (5, 12):
            search = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            end = time.monotonic() + 90
            while count(path) < wanted and time.monotonic() < end and search.poll() is None:
                time.sleep(0.05)
            os.kill(search.pid, signal.SIGKILL)
            words = search.communicate()[0]
            assert count(path) >= wanted, words
            killed.append(count(path))
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        cluster.ray.shutdown()
    assert killed[-1] < TRIALS, "it was killed in the middle"
    with Database(path) as database:
        (task,) = database.tasks()
        trials = [record.trial for record in database.records(task.key, purpose=Purpose.SEARCH)]
    assert len(trials) == TRIALS and {trial.run for trial in trials} == {trials[0].run}, "one run of so many trials"
    assert Counter((trial.sketch, trial.config) for trial in trials).most_common(1)[0][1] == 1


def count(path: Path) -> int:
    """Records that are in the database now."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return int(connection.execute("select count(*) from record").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
