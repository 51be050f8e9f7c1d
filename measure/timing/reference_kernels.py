"""Kernels whose times are known, which tell a new timer child what its seconds are worth.

A timer child takes the drift of its machine out of all times, in units of the moment when its first control was timed
(drift.py). The next child meets the machine in another moment. Where neighbours share the cores, it is half as fast again in
one minute as in the next: of a search with 2,000 trials (197x768x768) the best took 1248 us after 400 trials, the last ones of
the first child, and 1068 us two trials later; what had been good before led no more, and winners of such searches were 12%
slower than those of 128 trials. So a child is handed a kernel that an earlier one timed, its reference, with the seconds that
it took then: it becomes the control. A search that goes on with what a database knows begins with one of these.
"""

from __future__ import annotations

from ..process.builder import Built
from ..requests import ReferenceKernel
from ..result import Job, Measurement
from .drift import FASTER, can_be_control

TaskKey = tuple[str, str, int]  # program with its inputs, target, threads


def task_of(job: Job) -> TaskKey:
    """Gives what two jobs must have in common for their times to be compared."""
    return job.program_and_inputs, job.target, job.threads


class ReferenceKernels:
    """One kernel of each task. Some are on their way: jobs that are built for nothing else."""

    def __init__(self) -> None:
        self._known: dict[TaskKey, ReferenceKernel] = {}
        self._coming: dict[int, tuple[TaskKey, float]] = {}  # number of the job -> whose, and its seconds

    def of(self, job: Job) -> ReferenceKernel | None:
        """Gives the reference kernel of the job's task."""
        return self._known.get(task_of(job))

    def expect(self, job: Job, seconds: float) -> None:
        """The job is being built, and is known to take so long."""
        self._coming[job.number] = (task_of(job), seconds)

    def coming(self, job: Job) -> list[int]:
        """Numbers of the jobs that trials of this one's task have to wait for."""
        return [number for number, (task, _) in self._coming.items() if task == task_of(job)]

    def claims(self, job: Job, outcome: Built | Measurement) -> bool:
        """Says whether this was built to be a reference, and is no trial. One that cannot be built is forgotten."""
        task, seconds = self._coming.pop(job.number, (None, 0.0))
        if task is not None and isinstance(outcome, Built) and can_be_control(seconds):
            self._known[task] = ReferenceKernel(outcome.artifact, seconds)
        return task is not None

    def learn(self, job: Job, built: Built, measurement: Measurement) -> None:
        """A trial was timed. The first one stays, as the least of many is a lucky one, unless another is much faster."""
        if job.limit is None or not measurement.ok or measurement.abandoned or not can_be_control(measurement.seconds):
            return  # without a limit it was timed as it is, in the units of its moment
        known = self._known.get(task_of(job))
        if known is None or measurement.seconds < FASTER * known.seconds:
            self._known[task_of(job)] = ReferenceKernel(built.artifact, measurement.seconds)

    def drop(self, job: Job) -> None:
        """Forgets the kernel of the job's task, which ended a timer."""
        self._known.pop(task_of(job), None)
