"""What commands print: the outcome of a search for each program that it was of, and what is known of a model."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from ...targets.target import parse_target
from ...tensor.text.canonical import program_key
from ..kernels import parts_of
from ..models.tasks import model_tasks
from ..outcome import TaskResult, TuneResult
from ..records.database import Database
from ..report.standing import tuned_now, tuned_places
from . import model_report, report
from .named.what import What


def tell_outcomes(
    console: Console, database: Database, found: list[What], result: TuneResult, *, whole: bool, db: Path | None
) -> None:
    """Tells what a search has left of each WHAT, for each target. `whole`: programs were searched as they are, none was cut."""
    results = {task.task.key: task for task in result.tasks}
    places = dict.fromkeys((one.task.target, one.task.threads, one.task.accuracy) for one in result.tasks)
    alone = 0
    for target, threads, accuracy in places:
        for one in found:
            where = parse_target(target)
            if not whole and (one.made is not None or parts_of(one.program, where) is not None):
                kernels = model_tasks(one.program, where, threads, accuracy)
                own = {kernel.task.key: results[kernel.task.key] for kernel in kernels if kernel.task.key in results}
                tuned = tuned_now(database, kernels, own)
                console.print(model_report.outcome(database, tuned, _name(one), own))
                console.print(Text(f"{report.paste_lines(next(iter(own.values())).task, one, db)}\n"), soft_wrap=True)
            else:
                alone += _tell_one(console, database, one, results, (target, threads, accuracy), db)
    if alone > 1:
        console.print(report.titled("\nall together", report.together(database, result)))


def _tell_one(
    console: Console, database: Database, what: What, results: dict[str, TaskResult], place: tuple[object, ...], db: Path | None
) -> int:  # fmt: skip
    key, told = program_key(what.program), 0
    for result in results.values():
        task = result.task
        if task.program_key == key and (task.target, task.threads, task.accuracy) == place:
            console.print(report.outcome(database, result))
            console.print(Text(report.paste_lines(task, what, db)), soft_wrap=True)
            told += 1
    return told


def tell_model(console: Console, database: Database, what: What, words: str) -> None:
    """`tune show` of a model: its kernels, and what the whole would run at now."""
    for tuned in tuned_places(database, what.program, words):
        body = (model_report.tuned_table(database, tuned), "", model_report.summary(tuned))
        console.print(report.titled(f"{_name(what)} on {tuned.place}", *body))


def tell_best(console: Console, database: Database, what: What, words: str, db: Path | None) -> None:
    """`tune best` of a model: what it would run at now, with the lines to paste."""
    for tuned in tuned_places(database, what.program, words):
        console.print(report.titled(f"{_name(what)} on {tuned.place}", model_report.summary(tuned)))
        console.print(Text(f"{report.paste_lines(next(iter(tuned.tasks.values())), what, db)}\n"), soft_wrap=True)


def _name(what: What) -> str:
    return what.made.model.name if what.made is not None else "the program"
