"""`tune explain`, `tune replay`, `tune ops` and `tune env`: all about one thing."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer
from rich.text import Text

from ...common.errors import ArgumentError
from ...common.printable import printable
from ..terminal import make_console, pairs
from .named.input_specs import read_inputs_given
from .named.known import known_record
from .named.what import read_what
from .parameters import DatabasePath, Inputs, RecordId, SizeOptions, open_to_read
from .shell.completion import complete_explained, complete_operator


def explain(
    what: Annotated[
        str,
        typer.Argument(
            help="a record's number, as `tune show` prints it, or a model", autocompletion=complete_explained
        ),
    ],
    sizes: SizeOptions = None,
    *,
    input: Inputs = None,
    compile_time: Annotated[
        bool, typer.Option("--compile-time", help="compile it again: seconds of each pass")
    ] = False,
    code: Annotated[bool, typer.Option("--code", help="build it again: assembly, or PTX and SASS")] = False,
    db: DatabasePath = None,
) -> None:
    """Tells all about one record: program, schedule, config, what was measured and what bounds it. Of a model, or a program of
    several kernels: which those are, and which layers they come from."""
    from .explain import code_text, compile_table, explanation

    if not what.isdecimal():
        from ..explain import explain as explain_program

        if code or compile_time:
            raise ArgumentError("--code and --compile-time are of one record", found=what)
        made = read_what(what, sizes or (), (), read_inputs_given(input or ()))
        make_console().print(Text(str(explain_program(made.made.model if made.made else made.program))), soft_wrap=True)
        return
    record = int(what)
    with open_to_read(db) as database:
        if code:
            print(printable(code_text(database, *known_record(database, record))))
            return
        tell = compile_table if compile_time else explanation
        make_console().print(tell(database, *known_record(database, record)))


def replay(
    record: RecordId,
    *,
    seed: Annotated[Optional[int], typer.Option(min=0, help="of the data that a wrong result named")] = None,  # noqa: UP045
    db: DatabasePath = None,
) -> None:
    """Builds, checks and times one record again, and says whether it differs from what was recorded."""
    from .explain import replayed

    with open_to_read(db) as database:
        outcome = replayed(database, *known_record(database, record), seed)
    make_console().print(outcome.text)
    if not outcome.agrees:
        sys.exit(1)


def list_operators(
    name: Annotated[
        str | None, typer.Argument(help="an operator, or a part of a name", autocompletion=complete_operator)
    ] = None,
) -> None:
    """Lists the operators with their parameters and inputs; tells all about the one that is named."""
    from .ops import operators_text

    make_console().print(operators_text(name))


def env(*, db: DatabasePath = None) -> None:
    """Tells versions, this machine, the database's place, and which `tune` comes first on PATH."""
    from . import report
    from .about import environment_facts

    console = make_console()
    for title, facts in environment_facts(db).items():
        console.print(report.titled(title, pairs(facts)), soft_wrap=True)
