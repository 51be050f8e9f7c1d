"""`tune profile`: where the time of a model or a program goes, as a table, a timeline and a flame graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from ...common.errors import ArgumentError
from ...common.settings import DATABASE
from ...runtime.random_arguments import random_constants
from ...tensor.accuracy import accuracy_named
from ..terminal import make_console
from .named.input_specs import read_inputs_given
from .named.what import read_what
from .parameters import AccuracyName, DatabasePath, Inputs, Named, SizeOptions, Threads

FOLDED, PICTURE = ".folded", ".svg"


def profile(
    what: Named,
    sizes: SizeOptions = None,
    *,
    trace: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="write a timeline here (JSON), which ui.perfetto.dev and chrome://tracing open"),
    ] = None,
    flame: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="write a flame graph by modules here: a picture (.svg), or folded stacks (.folded)"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="how many of the slowest calls are told")] = 30,
    counters: Annotated[bool, typer.Option(help="read hardware counters, where there are any")] = True,
    input: Inputs = None,
    threads: Threads = None,
    accuracy: AccuracyName = "default",
    db: DatabasePath = None,
) -> None:
    """Runs WHAT on random inputs, with the best configurations that are known, and tells where its time goes."""
    from ..apply.compile import compile

    if flame is not None and flame.suffix not in (PICTURE, FOLDED):
        raise ArgumentError(f"{flame} is no flame graph", expected=f"a name that ends in {PICTURE} or {FOLDED}")
    found = read_what(what, sizes or (), (), read_inputs_given(input or ()))
    kernel = compile(
        found.made.model if found.made else found.program, db=db or DATABASE.value(), threads=threads,
        constants=None if found.made else random_constants(found.program), accuracy=accuracy_named(accuracy),
    )  # fmt: skip
    made = kernel.profile(counters=counters)
    console = make_console()
    console.print(made.table(limit), markup=False, highlight=False, soft_wrap=True)
    for path, text in ((trace, made.trace), (flame, made.folded if flame and flame.suffix == FOLDED else made.flame)):
        if path is not None:
            _write(path, text())
            console.print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot write {path}", found=error.strerror or str(error)) from None
