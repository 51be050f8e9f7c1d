"""Tables for people about whole models: which kernels they are cut into, what is known of each, what the whole would run at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from rich.console import Group, RenderableType

from ...common.errors import NoRecordError
from ...measure.result import Purpose
from ...targets.target import parse_target
from ...tensor.program import Program
from ...tensor.text.canonical import program_key
from ..models.tasks import ModelTask, Standing, model_tasks
from ..outcome import TaskResult
from ..records.claims import understood
from ..records.data import Record, TaskIdentity
from ..records.database import Database
from ..roofline import program_work
from ..units import time_text
from .report import ceilings_of, failure_table, pairs, place_text, status_line, table, titled


@dataclass(frozen=True, slots=True)
class Tuned:
    """The kernels of a model on one target with one number of threads, and the best record of each, if there is one."""

    place: str
    kernels: tuple[ModelTask, ...]
    tasks: Mapping[str, TaskIdentity]  # by program key, those that the database has
    best: Mapping[str, Record]
    standing: Standing


def kernels_here(program: Program) -> tuple[ModelTask, ...]:
    """The kernels of a program on this machine. One kernel: it is searched whole."""
    return model_tasks(program, parse_target("host"), 1, "default")


def program_keys(program: Program) -> set[str]:
    """Returns what the kernels of a program are in a database, whatever they are tuned for."""
    return {program_key(one.task.program) for one in kernels_here(program)}


def tuned_places(database: Database, program: Program, words: str) -> list[Tuned]:
    """Returns what a database has of the kernels of a model, for each target and number of threads. Errors: NoRecordError."""
    kernels, wanted = kernels_here(program), program_keys(program)
    places: dict[str, dict[str, TaskIdentity]] = {}
    for task in understood(database.tasks()):
        if task.program_key in wanted:
            places.setdefault(place_text(task), {})[task.program_key] = task
    if not places:
        raise NoRecordError(
            f"the database has no records of {words}", found=str(database.path), advice=f"tune run {words}"
        )
    return [_tuned(database, place, kernels, tasks) for place, tasks in places.items()]


def _tuned(database: Database, place: str, kernels: tuple[ModelTask, ...], tasks: Mapping[str, TaskIdentity]) -> Tuned:
    standing = Standing.of([one.count for one in kernels])
    best: dict[str, Record] = {}
    for number, one in enumerate(kernels):
        key = program_key(one.task.program)
        found = database.best(tasks[key].key)[:1] if key in tasks else []
        if found:
            best[key] = found[0]
            standing.best[number] = found[0].seconds
            standing.least[number] = program_work(one.program).least_seconds(
                ceilings_of(database, found[0], tasks[key])
            )
    return Tuned(place, kernels, tasks, best, standing)


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


def tuned_now(database: Database, kernels: tuple[ModelTask, ...], results: Mapping[str, TaskResult]) -> Tuned:
    """Works as `tuned_places`, for the tasks of a search."""
    tasks = {}
    for kernel in kernels:
        found = results.get(kernel.task.key)
        if found is not None:
            tasks[found.task.program_key] = found.task
    place = place_text(next(iter(tasks.values()))) if tasks else ""
    return _tuned(database, place, kernels, tasks)
