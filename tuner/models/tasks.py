"""The tasks of a model, and how it stands with them: what it would run at now, and how much of that no ceiling accounts for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from ...graph.executor.profile import layers_text
from ...graph.executor.provenance import origins_of
from ...schedules.task import Task
from ...targets.target import Target
from ...tensor.accuracy import Accuracy
from ...tensor.program import Program
from ..kernels import Kernels, parts_of

_SHOWN = 3  # places of a task that are named


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A kernel of a model. `program`: the first of its calls, with the names and origins of the model; `count`: all of them."""

    task: Task
    program: Program
    places: tuple[str, ...]  # the layers of each call, in words

    @property
    def count(self) -> int:
        """Says how often a run of the model calls it."""
        return len(self.places)

    @property
    def place(self) -> str:
        """Says where it is called, in words."""
        more = f" and {self.count - _SHOWN} more" if self.count > _SHOWN else ""
        return "; ".join(self.places[:_SHOWN]) + more


def model_tasks(program: Program, target: Target, threads: int, accuracy: Accuracy) -> tuple[ModelTask, ...]:
    """The tasks of a model, equal ones once, in the order of their first calls."""
    parts = parts_of(program, target)
    if parts is None:
        return (ModelTask(Task.of(program, target, threads, accuracy), program, (place_of(program),)),)
    kernels = Kernels.of(parts, target, threads, accuracy)
    places: list[list[str]] = [[] for _ in kernels.tasks]
    for kernel, number in zip(parts.kernels, kernels.number, strict=True):
        places[number].append(place_of(kernel))
    return tuple(
        ModelTask(task, kernels.first(number), tuple(places[number])) for number, task in enumerate(kernels.tasks)
    )


def place_of(program: Program) -> str:
    """Says where the stages of a kernel come from, in words."""
    return layers_text(origins_of(program))


@dataclass(slots=True)
class Standing:
    """Says how it stands with the kernels of a model.

    Attributes:
        counts: how often each is called.
        least: seconds that the ceilings allow each.
        best: seconds of the best that is known of each, infinite where nothing is.
    """

    counts: Sequence[float]
    least: list[float]
    best: list[float]

    @staticmethod
    def of(counts: Sequence[float]) -> Standing:
        """Says that nothing is known yet."""
        return Standing(counts, [0.0] * len(counts), [inf] * len(counts))

    @property
    def known(self) -> int:
        """Says how many kernels have a time."""
        return sum(map(isfinite, self.best))

    @property
    def whole(self) -> bool:
        """Says whether each kernel has a time."""
        return self.known == len(self.best)

    @property
    def seconds(self) -> float:
        """Returns what the model would run at now: the times of its kernels, those that are known, added up."""
        return sum(count * best for count, best in zip(self.counts, self.best, strict=True) if isfinite(best))

    @property
    def open(self) -> float:
        """The share of that which no ceiling accounts for, 0 to 1."""
        return sum(map(self.open_of, range(len(self.best))))

    def share(self, number: int) -> float:
        """Returns what a kernel takes of these seconds, 0 to 1."""
        best = self.best[number]
        return self.counts[number] * best / self.seconds if isfinite(best) and self.seconds else 0.0

    def open_of(self, number: int) -> float:
        """Works as `open`, for one kernel, as a share of the model."""
        best = self.best[number]
        return self.share(number) * max(0.0, 1.0 - self.least[number] / best) if isfinite(best) and best else 0.0
