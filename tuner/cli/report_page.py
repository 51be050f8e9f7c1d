"""`tune report`: one page about searches, to send and to open anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.text import Text

from ...common.settings import DATABASE
from ..records.claims import understood
from ..records.database import Database
from ..terminal import make_console
from ..units import size_text
from .named.input_specs import read_inputs_given
from .named.known import is_key
from .named.what import read_what
from .parameters import Constants, DatabasePath, Inputs, SizeOptions


def write_report(
    what: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            help="an operator, a .tensor or .onnx file, a saved model, package.module:function, or the first digits of a task; "
            "default: all tasks"
        ),
    ] = None,
    sizes: SizeOptions = None,
    *,
    constant: Constants = None,
    input: Inputs = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="the page")] = Path("report.html"),
    db: DatabasePath = None,
) -> None:
    """Writes one page about searches of WHAT, which needs no network: how they went, the space, the winner, the time."""
    from ..report.report import document_for, document_of_tasks, write_page

    words = " ".join([what or "", *(sizes or ())])
    with Database(db or DATABASE.value(), read_only=True) as database:
        if what is not None and is_key(what):
            tasks = [task for task in understood(database.tasks()) if task.key.startswith(what)]
            document = document_of_tasks(database, tasks, words)
        elif what is None:
            document = document_for(database, None)
        else:
            found = read_what(what, sizes or (), constant or (), read_inputs_given(input or ()))
            document = document_for(database, found.made.model if found.made else found.program, words)
    written = write_page(document, out)
    said = f"{written}: {document.title}, {size_text(written.stat().st_size)}; open it in any browser"
    make_console().print(Text(said), soft_wrap=True)
