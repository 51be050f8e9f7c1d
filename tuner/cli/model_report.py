"""Tables for people about whole models: which kernels they are cut into, what is known of each, what the whole would run at."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from rich.console import Group, RenderableType

from ...measure.result import Purpose
from ...tensor.text.canonical import program_key
from ..outcome import TaskResult
from ..records.claims import ceilings_of
from ..records.data import Record
from ..records.database import Database
from ..report.standing import Tuned
from ..roofline import program_work
from ..terminal import pairs
from ..units import time_text
from .report import failure_table, status_line, table, titled


def tuned_table(database: Database, tuned: Tuned, results: Mapping[str, TaskResult] | None = None) -> RenderableType:
    """A row for each kernel, those that take most of the model first. `results`: of a search that has just ended."""
    trials = [">trials", ">gain"] if results is not None else []
    rows = table("task", "layers", ">calls", ">best", ">share", ">ceiling", ">open", *trials, ">record")
    order = sorted(range(len(tuned.kernels)), key=lambda n: -tuned.standing.share(n))
    for number in order:
        rows.add_row(*_row(database, tuned, number, results))
    return rows


def _row(database: Database, tuned: Tuned, number: int, results: Mapping[str, TaskResult] | None) -> list[str]:
    kernel, standing = tuned.kernels[number], tuned.standing
    key = program_key(kernel.task.program)
    task, record = tuned.tasks.get(key), tuned.best.get(key)
    row = [task.key[:8] if task is not None else "", kernel.place, str(kernel.count)]
    if record is None or task is None:
        return [*row, "none"]
    speed = program_work(kernel.program).speed(record.seconds, ceilings_of(database, record, task))
    row += [
        time_text(record.seconds),
        f"{standing.share(number):.1%}",
        f"{speed.share:.1%}",
        f"{standing.open_of(number):.1%}",
    ]
    if results is not None:
        row += _gained(results.get(task.key), record)
    return [*row, str(record.id)]


def _gained(result: TaskResult | None, best: Record) -> list[str]:
    """Says how many trials a search made, and what they brought."""
    searched = [r for r in result.records if r.trial.purpose is Purpose.SEARCH] if result is not None else []
    ran = [record.seconds for record in searched if isfinite(record.seconds)]
    return [str(len(searched)), f"{ran[0] / best.seconds:.2f}x" if ran else ""]


def summary(tuned: Tuned) -> RenderableType:
    """Returns what the whole model would run at now."""
    standing, calls = tuned.standing, sum(one.count for one in tuned.kernels)
    facts = {"kernels": f"{len(tuned.kernels)}, called {calls} times in all"}
    if standing.whole:
        facts["now"] = f"{time_text(standing.seconds)}: the best of its kernels, added up"
    else:
        left = len(standing.best) - standing.known
        facts["now"] = (
            f"{time_text(standing.seconds)} and what {left} of {len(standing.best)} kernels take, which have no records: "
            "compile takes what the analytic model picks for these"
        )
    if standing.known:
        facts["open"] = f"{standing.open:.0%} of it: what no ceiling of this machine accounts for"
    return pairs(facts)


def outcome(database: Database, tuned: Tuned, name: str, results: Mapping[str, TaskResult]) -> RenderableType:
    """Returns what a search of a model has left."""
    made = [result for result in results.values() if result.records]
    records = [record for result in made for record in result.records]
    facts = {"trials": status_line(records)}
    parts: list[RenderableType] = [tuned_table(database, tuned, results), "", summary(tuned), pairs(facts)]
    if any(not record.trial.measurement.ok for record in records):
        parts += ["", failure_table(records, database.path)]
    return titled(f"{name} on {tuned.place}", Group(*parts))
