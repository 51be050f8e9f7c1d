"""tilesmith.report: one page about searches, for people to send and to open anywhere."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ...common.errors import ArgumentError, NoRecordError
from ...common.settings import DATABASE
from ...graph.model import Model
from ...targets.target import parse_target
from ...tensor.program import Program
from ...tensor.text.canonical import program_key
from ..display import program_title
from ..kernels import parts_of
from ..records.claims import understood
from ..records.data import TaskIdentity
from ..records.database import Database
from .document import Document, document_of
from .layers import shown_model
from .page import page_of
from .plotly import plotly_script
from .standing import tuned_places


def report(
    what: Program | Model | None = None, path: str | os.PathLike[str] = "report.html", *, db: str | Path | None = None
) -> Path:
    """Writes one page about what a database knows, and returns its path. The page needs no network.

    Args:
        what: a program or a model; None for all tasks of the database.
        db: the tuning database; by default that of the settings.

    Raises:
        NoRecordError: the database has no records of it.
        ArgumentError: the page cannot be written there.
        EnvironmentFailure: plotly is not installed (the extra `report`).
    """
    with Database(DATABASE.value() if db is None else db, read_only=True) as database:
        return write_page(document_for(database, what), Path(path))


def document_for(database: Database, what: Program | Model | None, words: str = "this program") -> Document:
    """Returns what a page about something tells. `words`: how a person named it. Errors: NoRecordError."""
    if not isinstance(what, Program | Model | None):
        raise ArgumentError("that is no program", expected="a Program or a Model", found=repr(what)[:80])
    if isinstance(what, Model) or (what is not None and parts_of(what, parse_target("host")) is not None):
        return _of_model(database, what, words)
    tasks = understood(database.tasks())
    if what is not None:
        tasks = [task for task in tasks if task.program_key == program_key(what)]
    return document_of_tasks(database, tasks, words if what is not None else "anything")


def document_of_tasks(database: Database, tasks: list[TaskIdentity], words: str) -> Document:
    """Returns what a page about some tasks tells. Errors: NoRecordError where there are none."""
    if not tasks:
        raise NoRecordError(f"the database has no records of {words}", found=str(database.path), advice="tune run WHAT")
    same = len({task.program_key for task in tasks}) == 1
    title = program_title(tasks[0].display) if same else f"{len(tasks)} tasks of {database.path.name}"
    return document_of(database, title, tasks, [])


def _of_model(database: Database, what: Program | Model, words: str) -> Document:
    name = what.name if isinstance(what, Model) else "the program"
    places = tuned_places(database, what.program if isinstance(what, Model) else what, words)
    models = [shown_model(database, tuned, name) for tuned in places]
    order = {layer.task: -(layer.now or 0.0) for model in models for layer in model.layers}
    tasks = [task for tuned in places for task in tuned.tasks.values()]
    return document_of(database, name, sorted(tasks, key=lambda task: order.get(task.key, 0.0)), models)


def write_page(document: Document, path: Path) -> Path:
    """Writes a page, all of it or nothing. Errors: ArgumentError, EnvironmentFailure."""
    text = page_of(document, plotly_script())
    if path.is_dir():
        raise ArgumentError("the page needs the name of a file", found=str(path), advice=f"-o {path}/report.html")
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=".report-", suffix=".html", delete=False
        ) as beside:
            beside.write(text)
        Path(beside.name).chmod(0o644)
        Path(beside.name).replace(path)
    except OSError as error:
        raise ArgumentError(f"cannot write the page: {error.strerror}", found=str(path)) from error
    return path
