"""The file of records that the project ships: small, checked, and looked at by every fresh install.

Of each task stay the best few, as `compile` would rank them, with what it asks of a record and no more: a time as a number, the
ceilings of the machine in round figures. What is in the file already stays, unless something better takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from ...common.errors import TilesmithError
from ...schedules.sketch import UNSCHEDULED, broken_conditions, parse_sketch
from ...schedules.task import normalised
from ...targets.ceilings import Ceilings
from ...targets.target import parse_target
from ...tensor.text.parse import parse
from .data import TaskIdentity
from .database import Database
from .log import LogEntry, export_log, import_log, read_log, write_entries

BEST = 2
RUN = "shipped"
_DIGITS = 3  # of figures that say how fast a machine can be


@dataclass(frozen=True, slots=True)
class Shipped:
    """Holds what a file of shipped records has."""

    records: int
    tasks: int
    bytes: int
    wrong: tuple[str, ...]  # what no version should ship, in words


def ship(database: Database, file: Path, tasks: Iterable[TaskIdentity] | None = None, best: int = BEST) -> Shipped:
    """Adds the best records of tasks (default: all) to a file. What no version can use goes. Errors: ArgumentError."""
    with TemporaryDirectory() as folder:
        fresh = Path(folder) / "fresh.jsonl"
        export_log(database, fresh, tasks, best=best)
        entries = [entry for log in (file, fresh) if log.exists() for entry in read_log(log)[0]]
        write_entries(fresh, [entry for entry in entries if not _why_wrong(entry)])
        with Database(Path(folder) / "all.sqlite") as together:
            import_log(fresh, together)
            export_log(together, fresh, best=best)
        write_entries(file, map(_small, read_log(fresh)[0]))
    return check_shipped(file)


def check_shipped(file: Path) -> Shipped:
    """Says whether each line is a record of a kernel that ran, and that this version can build. Errors: ArgumentError."""
    entries, bad = read_log(file)
    wrong = [str(line) for line in bad]
    wrong += [f"{file}: {_named(entry)}: {why}" for entry in entries if (why := _why_wrong(entry))]
    return Shipped(len(entries), len({entry.task.key for entry in entries}), file.stat().st_size, tuple(wrong))


def _named(entry: LogEntry) -> str:
    return f"task {entry.task.key[:8]}, config {entry.trial.config}"


def _why_wrong(entry: LogEntry) -> str:
    """Says why this version cannot use a record; "" where it can."""
    if not entry.trial.measurement.ok:
        return f"it ended as {entry.trial.measurement.status}"
    try:
        sketch = parse_sketch(entry.sketch.text) if entry.sketch.text else UNSCHEDULED
        config = json.loads(entry.trial.config)
        tree = sketch.apply(normalised(parse(entry.task.program)), parse_target(entry.task.target), config)
        broken: Sequence[object] = broken_conditions(tree)
    except TilesmithError as error:
        return error.problem
    return f"it breaks {broken[0]}" if broken else ""


def _small(entry: LogEntry) -> LogEntry:
    """The record without what nobody asks of it."""
    trial = entry.trial
    measured = replace(
        trial.measurement, times=(_rounded(median(trial.measurement.times), 6),) if trial.measurement.times else (),
        compile_seconds=0.0, check_seconds=0.0, measure_seconds=0.0, device="",
    )  # fmt: skip
    machine = replace(entry.machine, ceilings=_round_figures(entry.machine.ceilings))
    when = float(round(trial.created))
    return replace(
        entry, machine=machine, trial=replace(trial, measurement=measured, run=RUN, created=when, elapsed=0.0)
    )


def _round_figures(text: str) -> str:
    """The ceilings that claims are held against, and no other."""
    try:
        known = Ceilings.from_json(text)
    except ValueError:
        return text
    flops = {name: _rounded(speed) for name, speed in known.flops.items()}
    bandwidth = tuple((size, _rounded(speed)) for size, speed in known.bandwidth)
    return Ceilings(flops, bandwidth, known.threads).to_json()


def _rounded(value: float, digits: int = _DIGITS) -> float:
    return float(f"{value:.{digits}g}")
