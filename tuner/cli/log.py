"""`tune log ...`: records as JSON lines, to keep in git and to carry between databases."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from ...common.errors import ArgumentError
from ...common.printable import printable
from ...common.settings import DATABASE
from ..records.database import Database, open_database
from ..records.log import LogReport, check_log, export_log, import_log, merge_logs
from ..records.ship import BEST, ship
from ..report.standing import program_keys
from .named.what import read_whats
from .parameters import DatabasePath

log = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Records as JSON lines: export, import, merge, check.",
    rich_markup_mode=None,
)

LogFile = Annotated[Path, typer.Argument(help="a file of JSON lines")]


@log.command("export")
def export_records(
    file: LogFile,
    task: Annotated[Optional[list[str]], typer.Option(help="first digits of a task; default: all tasks")] = None,  # noqa: UP045
    best: Annotated[Optional[int], typer.Option(min=1, help="only so many best candidates of each task")] = None,  # noqa: UP045
    *,
    db: DatabasePath = None,
) -> None:
    """Writes all records, or those of some tasks; an old file is replaced. `compile` takes such a file as its database."""
    with Database(db or DATABASE.value(), read_only=True) as database:
        tasks = database.tasks()
        if task:
            tasks = [found for found in tasks if found.key.startswith(tuple(task))]
            if not tasks:
                raise ArgumentError("no task begins so", found=", ".join(task), advice="`tune show` lists all tasks")
        count = export_log(database, file, tasks, best=best)
    print(f"{count} records of {len(tasks)} tasks written to {file}")


@log.command("import")
def import_records(file: LogFile, *, db: DatabasePath = None) -> None:
    """Adds what the database lacks; doing it twice changes nothing."""
    with open_database(db) as database:
        _tell(import_log(file, database), "added", "there already")


@log.command("merge")
def merge_files(out: LogFile, files: Annotated[list[Path], typer.Argument(help="what to merge")]) -> None:
    """Writes one log of all records of several; of two records of one candidate the newer stays."""
    _tell(merge_logs(files, out), f"written to {out}", "twice")


@log.command("check")
def check_file(file: LogFile) -> None:
    """Reads a log, changes nothing, and says what is wrong with it."""
    _tell(check_log(file), "records", "twice")


@log.command("ship")
def ship_records(
    file: LogFile,
    what: Annotated[list[str] | None, typer.Argument(help="models whose kernels are meant; default: all tasks")] = None,
    best: Annotated[int, typer.Option(min=1, help="how many candidates of each task")] = BEST,
    *,
    db: DatabasePath = None,
) -> None:
    """Adds the best records to a file that the project ships (logs/), small and without duplicates, and checks all of it."""
    wanted = {key for one in read_whats(what) for key in program_keys(one.program)} if what else None
    with Database(db or DATABASE.value(), read_only=True) as database:
        tasks = [task for task in database.tasks() if wanted is None or task.program_key in wanted]
        if not tasks:
            raise ArgumentError(
                "the database has no records of these", found=", ".join(what or ()) or str(database.path)
            )
        shipped = ship(database, file, tasks, best)
    print(f"{shipped.records} records of {shipped.tasks} tasks, {shipped.bytes} bytes, in {file}")
    for wrong in shipped.wrong:
        print(printable(f"  {wrong}"), file=sys.stderr)
    if shipped.wrong:
        sys.exit(2)


def _tell(report: LogReport, new: str, known: str) -> None:
    """Says what came of it; ends with code 2 when lines had to be skipped."""
    print(f"{report.new} {new}, {report.known} {known}, {len(report.bad)} lines skipped")
    for bad in report.bad:
        print(printable(f"  {bad}"), file=sys.stderr)
    if report.bad:
        sys.exit(2)
