"""The children of a local runner begin when they are needed, and end with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contracts.fake_runner import fake_runner
from contracts.measure_fakes import BUILDER, TIMER, fake_job
from contracts.runner import gather
from tilesmith.common.errors import ArgumentError, EnvironmentFailure
from tilesmith.measure.local import LocalRunner


def test_children_that_do_not_start() -> None:
    with LocalRunner("broken", 1, builder=BUILDER, timer=TIMER, builders=1) as runner:
        runner.submit(fake_job(1))
        with pytest.raises(EnvironmentFailure, match="does not start") as caught:
            gather(runner, 1)
    assert "no compiler" in caught.value.found


def test_closed_is_closed() -> None:
    runner = fake_runner(builders=1)
    runner.close()
    assert list(runner.collect()) == []
    with pytest.raises(ArgumentError, match="closed"):
        runner.submit(fake_job(1))


def test_no_threads_no_builders() -> None:
    for options in ({"threads": 0}, {"threads": 1, "builders": 0}):
        with pytest.raises(ArgumentError, match="at least one"):
            LocalRunner("fake", **options)


def test_builders_are_started_as_they_are_needed() -> None:
    with fake_runner(builders=3) as runner:
        for number in (1, 2):  # which the first child holds
            runner.submit(fake_job(number))
        assert len(gather(runner, 2)) == 2 and len(runner.children) == 2  # of which one times
        for number in range(3, 10):
            runner.submit(fake_job(number))
        assert len(gather(runner, 7)) == 7 and len(runner.children) == 4


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_end(pids: list[int], seconds: float = 10.0) -> list[int]:
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return [pid for pid in pids if alive(pid)]


def test_close_ends_all_children() -> None:
    with fake_runner() as runner:
        pids = runner.children
        runner.submit(fake_job(1, build="hang"))
        runner.collect(timeout=0.2)
        assert len(pids) >= 2 and all(map(alive, pids))
    assert wait_for_end(pids, 2.0) == []


PARENT = """
import sys, time, threading
from contracts.measure_fakes import BUILDER, TIMER, fake_job
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.requests import TimeLimits
def main():
    limits = TimeLimits(compile=1.0, time=1.0)
    runner = LocalRunner("fake", 1, builder=BUILDER, timer=TIMER, builders=2, limits=limits)
    runner.submit(fake_job(1)), runner.submit(fake_job(2))
    done = list(runner.collect())
    while len(done) < 2: done += runner.collect()
    runner.submit(fake_job(4, time="hang", threads=64))  # builders are stopped meanwhile
    runner.submit(fake_job(3, build="hang"))
    try:
        runner.collect(timeout=0.5)
        print(*runner.children, flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        runner.submit(fake_job(5))
        while not any(n == 5 for n, m in runner.collect(timeout=10.0) if m.ok): pass
        print("fine", flush=True)
        runner.close()
main() if sys.argv[1] == "main" else threading.Thread(target=main).start()
"""


def start_parent(kind: str) -> tuple[subprocess.Popen[str], list[int]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, kind], stdout=subprocess.PIPE, text=True, env=environment, process_group=0
    )
    assert parent.stdout is not None
    return parent, [int(p) for p in parent.stdout.readline().split()]


@pytest.mark.parametrize("kind", ["main", "thread"])
def test_children_die_with_a_parent_that_is_killed(kind: str) -> None:
    parent, pids = start_parent(kind)
    assert len(pids) == 2 and all(map(alive, pids))
    parent.kill()
    parent.communicate()
    assert wait_for_end(pids) == []


def test_ctrl_c_is_for_the_parent_alone() -> None:
    parent, pids = start_parent("main")
    os.killpg(parent.pid, signal.SIGINT)
    said, _ = parent.communicate(timeout=30)
    assert said.split() == ["interrupted", "fine"]
    assert parent.returncode == 0 and wait_for_end(pids) == []
