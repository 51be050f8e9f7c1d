"""What a callback is told of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from ...measure.result import Config, Measurement


@dataclass(frozen=True, slots=True)
class TrialEvent:
    """A trial that has ended and is in the database.

    Attributes:
        task: the kernel in words, as `matmul_f32_512x512x512`.
        key: the task in the database.
        number: of the trial in this run, from 1.
        sketch: the key of its sketch, "" for the nest as it is written.
        config: its numbers by name.
        measurement: how it ended.
        best: seconds of the best of this task on this machine, this trial included; infinity where none ran yet.
        before: the same before this trial.
        elapsed: seconds of work in this run.
    """

    task: str
    key: str
    number: int
    sketch: str
    config: Config
    measurement: Measurement
    best: float = inf
    before: float = inf
    elapsed: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of a run; infinity where it failed."""
        return self.measurement.seconds

    @property
    def is_best(self) -> bool:
        """Says whether it is faster than all before."""
        return self.seconds < self.before

    def figures(self) -> Mapping[str, float]:
        """The numbers that change from trial to trial, those that are finite."""
        named = {"seconds": self.seconds, "best_seconds": self.best, "elapsed": self.elapsed}
        return {name: value for name, value in named.items() if value < inf}
