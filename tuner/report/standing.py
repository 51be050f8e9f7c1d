"""What a database knows of the kernels of a model, for each target and number of threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...common.errors import NoRecordError
from ...targets.target import parse_target
from ...tensor.program import Program
from ...tensor.text.canonical import program_key
from ..display import place_text
from ..models.tasks import ModelTask, Standing, model_tasks
from ..outcome import TaskResult
from ..records.claims import ceilings_of, understood
from ..records.data import Record, TaskIdentity
from ..records.database import Database
from ..roofline import program_work


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


def tuned_now(database: Database, kernels: tuple[ModelTask, ...], results: Mapping[str, TaskResult]) -> Tuned:
    """Works as `tuned_places`, for the tasks of a search."""
    tasks = {}
    for kernel in kernels:
        found = results.get(kernel.task.key)
        if found is not None:
            tasks[found.task.program_key] = found.task
    place = place_text(next(iter(tasks.values()))) if tasks else ""
    return _tuned(database, place, kernels, tasks)
