"""`tune show` and `tune best`: what a database knows of tasks, programs and models."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ...common.errors import NoRecordError
from ...tensor.text.canonical import program_key
from ..display import task_title
from ..records.claims import understood
from ..records.data import TaskIdentity
from ..records.database import Database
from ..records.ranking import rank
from ..terminal import make_console
from .named.what import What
from .parameters import Constants, DatabasePath, Inputs, Selection, SizeOptions, named, open_to_read, words_of


def show(
    what: Selection = None,
    sizes: SizeOptions = None,
    *,
    constant: Constants = None,
    input: Inputs = None,
    limit: Annotated[int, typer.Option(min=1, help="how many records of each task")] = 20,
    model: Annotated[bool, typer.Option("--model", help="how good the cost model was, batch by batch")] = False,
    db: DatabasePath = None,
) -> None:
    """Lists tasks; for WHAT or one task its records, best first, and failures by kind; for a model its kernels."""
    from . import report

    console = make_console()
    found = named(what, sizes, constant, input)
    with open_to_read(db) as database:
        if found is not None and found.is_cut:
            from .outcomes import tell_model  # here and below: a list of tasks needs no cutting into kernels

            tell_model(console, database, found, words_of(what, sizes, constant, input))
            return
        tasks = _tasks(database, what, found, words_of(what, sizes, constant, input))
        if what is None and not model:
            console.print(report.task_tables(database, tasks))
            return
        for task in tasks:
            if model:
                console.print(report.titled(task_title(task), report.model_table(database, task)))
                continue
            records = database.records(task.key)
            console.print(report.titled(task_title(task), report.status_line(records)))
            console.print(report.record_table(database, task, rank(records)[:limit]))
            if any(not record.trial.measurement.ok for record in records):
                console.print()
                console.print(report.failure_table(records, database.path))


def best(
    what: Selection = None,
    sizes: SizeOptions = None,
    *,
    constant: Constants = None,
    input: Inputs = None,
    db: DatabasePath = None,
) -> None:
    """Shows the best record of each task, with the lines to paste; for a model what it would run at now."""
    from . import report

    console = make_console()
    found = named(what, sizes, constant, input)
    with open_to_read(db) as database:
        if found is not None and found.is_cut:
            from .outcomes import tell_best

            tell_best(console, database, found, words_of(what, sizes, constant, input), db)
            return
        for task in _tasks(database, what, found, words_of(what, sizes, constant, input)):
            records = database.best(task.key)
            console.print(report.titled(task_title(task), report.best_facts(database, task, records)))
            console.print(Text(f"{report.paste_lines(task, found, db)}\n"), soft_wrap=True)


def _tasks(database: Database, what: str | None, found: What | None, words: str) -> list[TaskIdentity]:
    """Tasks that a person means: all, those of a program, or those whose key begins so. Errors: NoRecordError for none."""
    tasks = understood(database.tasks())
    if what is None:
        return tasks
    if found is None:
        tasks = [task for task in tasks if task.key.startswith(what)]
    else:
        key = program_key(found.program)
        tasks = [task for task in tasks if task.program_key == key]
    if not tasks:
        raise NoRecordError(
            f"the database has no records of {words}",
            found=str(database.path),
            advice="`tune show` lists all tasks" if found is None else f"tune run {words}",
        )
    return tasks
