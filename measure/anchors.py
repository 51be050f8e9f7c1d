"""Kernels whose times are known, which tell a new timer child what its seconds are worth.

A timer child takes the drift of its machine out of all times, in units of the moment when its first control was timed
(drift.py). The next child meets the machine in another moment. Where neighbours share the cores, it is half as fast again in
one minute as in the next: of a search with 2,000 trials (197x768x768) the best took 1248 us after 400 trials, the last ones of
the first child, and 1068 us two trials later; what had been good before led no more, and winners of such searches were 12%
slower than those of 128 trials. So a child is handed a kernel that an earlier one timed, with the seconds that it took then: it
becomes the control. A search that goes on with what a database knows begins with one of these.
"""

from __future__ import annotations

from .builder import Built
from .drift import FASTER
from .requests import Anchor
from .result import Job, Measurement

Task = tuple[str, str, int]  # program, target, threads


def task_of(job: Job) -> Task:
    """Whose times can be compared."""
    return job.program, job.target, job.threads


class Anchors:
    """One kernel of each task."""

    def __init__(self) -> None:
        self._known: dict[Task, Anchor] = {}
        self._promised: dict[int, float] = {}  # number of a job that is being built for it -> its seconds
        self._awaited: dict[Task, int] = {}

    def promise(self, job: Job, seconds: float) -> None:
        """The job, once built, is known to take so long."""
        self._promised[job.number] = seconds
        self._awaited[task_of(job)] = job.number

    def awaited(self, job: Job) -> bool:
        """Whether trials of the job's task have to wait for what was promised."""
        return task_of(job) in self._awaited

    def take(self, job: Job, outcome: Built | Measurement) -> bool:
        """Whether this was built for its known time, and nothing else. One that cannot be built is forgotten."""
        seconds = self._promised.pop(job.number, None)
        if seconds is None:
            return False
        if self._awaited.get(task_of(job)) == job.number:
            del self._awaited[task_of(job)]
        if isinstance(outcome, Built):
            self._known[task_of(job)] = Anchor(outcome.artifact, seconds)
        return True

    def learn(self, job: Job, built: Built, measurement: Measurement) -> None:
        """A trial was timed. The first one stays, as the least of many is a lucky one, unless another is much faster."""
        known = self._known.get(task_of(job))
        timed = measurement.ok and not measurement.abandoned
        if timed and (known is None or measurement.seconds < FASTER * known.seconds):
            self._known[task_of(job)] = Anchor(built.artifact, measurement.seconds)

    def of(self, job: Job) -> Anchor | None:
        """Of the job's task."""
        return self._known.get(task_of(job))

    def drop(self, job: Job) -> None:
        """That of the job's task ended a timer."""
        self._known.pop(task_of(job), None)
