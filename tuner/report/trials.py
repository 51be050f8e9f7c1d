"""The trials of a task as columns: 10,000 of them stay small, and a page draws columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from ...measure.result import Purpose
from ..records.data import Record, Run
from .modelled import Modelled

Cell = int | str | bool | None


@dataclass(frozen=True, slots=True)
class TrialColumns:
    """A row for each record, in the order in which they were made.

    second: of work since the first trial, over all runs without their pauses.
    status, sketch: numbers in the lists of the task. seconds: measured, None where it failed.
    predicted, moved: by the analytic model, where it could tell; config: the values of the names of its sketch.
    """

    id: list[int]
    again: list[bool]  # measured again at the end, beside the other leaders
    dropped: list[bool]
    status: list[int]
    sketch: list[int]
    second: list[float]
    seconds: list[float | None]
    predicted: list[float | None]
    moved: list[list[float] | None]
    config: list[list[Cell]]


@dataclass(frozen=True, slots=True)
class SketchNames:
    """A sketch of the trials: its title, and the names of its tunables."""

    key: str
    title: str
    names: list[str]


def columns_of(
    records: Sequence[Record],
    runs: Sequence[Run],
    sketches: Sequence[SketchNames],
    statuses: Sequence[str],
    said: Mapping[int, Modelled],
) -> TrialColumns:
    """The columns. `said`: by the model, of a record's number."""
    number = {sketch.key: place for place, sketch in enumerate(sketches)}
    before = seconds_before(runs, records)
    kinds = {status: place for place, status in enumerate(statuses)}
    ends = [record.trial.measurement for record in records]
    known = [said.get(record.id) for record in records]
    return TrialColumns(
        id=[record.id for record in records],
        again=[record.trial.purpose is not Purpose.SEARCH for record in records],
        dropped=[end.abandoned for end in ends],
        status=[kinds[str(end.status)] for end in ends],
        sketch=[number[record.trial.sketch] for record in records],
        second=[_short(before[record.trial.run] + record.trial.elapsed) for record in records],
        seconds=[_short(end.seconds) if isfinite(end.seconds) else None for end in ends],
        predicted=[_short(one.seconds) if one else None for one in known],
        moved=[[_short(size) for size in one.moved] if one else None for one in known],
        config=[
            [record.config.get(name) for name in sketches[number[record.trial.sketch]].names] for record in records
        ],
    )


def seconds_before(runs: Sequence[Run], records: Sequence[Record]) -> dict[str, float]:
    """Seconds of work in earlier runs, by run: what was spent, or what its last record says."""
    last: dict[str, float] = {}
    for record in records:
        last[record.trial.run] = max(last.get(record.trial.run, 0.0), record.trial.elapsed)
    spent = {run.id: run.spent for run in runs}
    begun = {run.id: run.started for run in runs}
    found, total = {}, 0.0
    for run in sorted(last, key=lambda one: begun.get(one, 0.0)):
        found[run] = total
        total += max(spent.get(run, 0.0), last[run])
    return found


def _short(number: float) -> float:
    """Six digits: a page shows four."""
    return float(f"{number:.6g}")
