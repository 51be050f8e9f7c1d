"""Hosts for tests on a cluster: they misbehave on command, or only sleep. Workers import this file by its name."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from contracts.measure_fakes import BUILDER, TIMER
from tilesmith.measure.cluster.host import BuildRunner, Order
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.process.builder import Built
from tilesmith.measure.requests import TimeLimits
from tilesmith.measure.result import Job, Measurement, Purpose, Status

FAKE = f"{__name__}:fake_runner"
FAKE_BUILDERS = f"{__name__}:fake_builders"
SLEEPER = f"{__name__}:sleeper"


def fake_runner(order: Order, speeds: Any) -> LocalRunner:
    """Real children with a fake builder and a fake timer."""
    limits = TimeLimits(compile=1.5, load=1.5, prepare=1.5, verify=1.5, time=1.5, build_memory=1 << 30)
    return LocalRunner("fake", 1, builders=1, builder=BUILDER, timer=TIMER, limits=limits)


def fake_builders(order: Order, speeds: Any) -> BuildRunner:
    """A builder host with a fake builder."""
    return BuildRunner("fake", 1, BUILDER)


class Sleeper:
    """Takes `seconds` for each job, one after the other, without any children. Jobs say what else is to happen."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._queue: deque[tuple[float, Job]] = deque()
        self.capacity = 2

    def submit(self, job: Job, built: Built | None = None) -> None:
        if job.config.get("do") == "die":
            os._exit(1)
        start = max(time.monotonic(), self._queue[-1][0] if self._queue else 0.0)
        self._queue.append((start + self._seconds, job))

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        if self._queue:
            wait = self._queue[0][0] - time.monotonic()
            time.sleep(max(0.0, wait if timeout is None else min(wait, timeout)))
        done = []
        while self._queue and self._queue[0][0] <= time.monotonic():
            job = self._queue.popleft()[1]
            done.append((job.number, self._end(job)))
        return done

    def _end(self, job: Job) -> Measurement:
        return Measurement(Status.OK, (float(job.config.get("seconds", 1e-3)),) * 3, device=f"sleeper {os.getpid()}")

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        return [(job.number, self._end(job)) for job in jobs]

    def close(self) -> None:
        self._queue.clear()


def sleeper(order: Order, speeds: Any) -> Sleeper:
    """A host that only sleeps."""
    return Sleeper(float(order.options.get("seconds", 0.02)))


def sleep_job(number: int, **config: Any) -> Job:
    """A job for it."""
    return Job(number, "program", "", config, "fake", 1, Purpose.SEARCH)
