"""The kernels of a model with their layers: what each took at first, and what it takes now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from ...measure.result import Purpose
from ...tensor.text.canonical import program_key
from ..models.tasks import Standing
from ..records.data import Record
from ..records.database import Database
from .standing import Tuned


@dataclass(frozen=True, slots=True)
class ShownLayer:
    """A kernel of a model. `before`, `now`, `least`: seconds of all of its calls; None where nothing is known.

    `before`: of its first trial that ran, which is what the analytic model picked; where the best one was measured again at
    another moment, both are in the units of that moment. `least`: what the ceilings allow.
    """

    task: str
    place: str
    calls: int
    trials: int
    before: float | None
    now: float | None
    least: float | None


@dataclass(frozen=True, slots=True)
class ShownModel:
    """A model on one target. `open`: the share of its seconds that no ceiling accounts for."""

    name: str
    place: str
    layers: list[ShownLayer]
    open: float


def shown_model(database: Database, tuned: Tuned, name: str) -> ShownModel:
    """Returns the layers of a model as a database knows them, those that take most now first."""
    layers = [_layer(database, tuned, number) for number, _ in enumerate(tuned.kernels)]
    return ShownModel(name, tuned.place, sorted(layers, key=lambda one: -(one.now or 0.0)), tuned.standing.open)


def _layer(database: Database, tuned: Tuned, number: int) -> ShownLayer:
    kernel, standing = tuned.kernels[number], tuned.standing
    task = tuned.tasks.get(program_key(kernel.task.program))
    records = database.records(task.key) if task is not None else []
    searched = [record for record in records if record.trial.purpose is Purpose.SEARCH]
    first = next((record.seconds for record in searched if isfinite(record.seconds)), None)
    best = tuned.best.get(program_key(kernel.task.program))
    if first is not None and best is not None:
        first *= best.seconds / seconds_as_trial(best, searched)
    return ShownLayer(
        task.key if task is not None else "", kernel.place, kernel.count, len(searched),
        _all_calls(first, standing, number), _all_calls(standing.best[number], standing, number),
        _all_calls(standing.least[number] or None, standing, number),
    )  # fmt: skip


def seconds_as_trial(best: Record, searched: Sequence[Record]) -> float:
    """Returns what a record's candidate took in the search, beside the other trials; its own seconds where it was none."""
    place = (best.trial.sketch, best.trial.config)
    same = (r.seconds for r in searched if (r.trial.sketch, r.trial.config) == place and isfinite(r.seconds))
    return next(same, best.seconds)


def _all_calls(seconds: float | None, standing: Standing, number: int) -> float | None:
    return None if seconds is None or not isfinite(seconds) else seconds * standing.counts[number]
