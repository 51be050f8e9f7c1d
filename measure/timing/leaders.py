"""Artifacts of the fastest trials, so that a confirmation need not build them again."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..process.builder import Built
from ..result import Job, Measurement
from .reference_kernels import TaskKey, task_of

KEPT = 16  # of each task: as many as the largest effort confirms; 10 to 60 kB each

Key = tuple[str, frozenset[tuple[str, int | str | bool]]]  # sketch and config


@dataclass
class Leaders:
    """Keeps the artifacts of the fastest trials."""

    _built: dict[TaskKey, dict[Key, tuple[float, Built]]] = field(default_factory=dict)  # with the seconds of a run

    def of(self, job: Job) -> Built | None:
        """Returns what was built for an earlier job of the same candidate."""
        _, built = self._built.get(task_of(job), {}).get(_key(job), (0.0, None))
        return built

    def learn(self, job: Job, built: Built, measurement: Measurement) -> None:
        """Keeps the artifact of a timed trial if it is among the fastest."""
        if not measurement.ok or measurement.abandoned:
            return
        of_task = self._built.setdefault(task_of(job), {})
        of_task[_key(job)] = measurement.seconds, built
        if len(of_task) > KEPT:
            del of_task[max(of_task, key=lambda key: of_task[key][0])]


def _key(job: Job) -> Key:
    return job.sketch, frozenset(job.config.items())
