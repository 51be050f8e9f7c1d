"""Arguments and options that several commands have, with what `--help` says of them and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ...common.settings import DATABASE
from .named.input_specs import read_inputs_given
from .named.known import is_key
from .shell.completion import complete_record, complete_size, complete_task, complete_what

if TYPE_CHECKING:  # a shell that completes a line waits for what is imported here
    from ..records.database import Database
    from .named.what import What

WHAT_HELP = (
    "an operator (`tune ops` lists them), a .tensor file, an .onnx file, a saved model, or package.module:function, "
    "which makes a program, a model or a module of PyTorch"
)
Named = Annotated[str, typer.Argument(help=WHAT_HELP, autocompletion=complete_what)]
Selection = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(help=WHAT_HELP + ", or the first digits of a task", autocompletion=complete_task),
]
SizeOptions = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(help="sizes and options, as in m=1024", autocompletion=complete_size),
]
Constants = Annotated[Optional[list[str]], typer.Option("--constant", help="an input known when compiling")]  # noqa: UP045
Inputs = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--input", help="of a model, once for each input: 1x3x224x224, i64[1,128], or mask=bool[1,128]"),
]
Threads = Annotated[Optional[int], typer.Option(help="threads of the kernels; default: all cores")]  # noqa: UP045
AccuracyName = Annotated[str, typer.Option(help="default, or strict: only orders of sums may change")]
DatabasePath = Annotated[Optional[Path], typer.Option("--db", help="the tuning database")]  # noqa: UP045
RecordId = Annotated[
    int, typer.Argument(help="a record's number, as `tune show` prints it", autocompletion=complete_record)
]


def open_to_read(path: Path | None) -> Database:
    """The database to read from."""
    from ..records.database import Database

    return Database(path or DATABASE.value(), read_only=True)


def named(
    what: str | None, sizes: Sequence[str] | None, constants: Sequence[str] | None, inputs: Sequence[str] | None
) -> What | None:
    """The program or model that a person names; None for all tasks, and for one by its key."""
    from .named.what import read_what

    if what is None or is_key(what):
        return None
    return read_what(what, sizes or (), constants or (), read_inputs_given(inputs or ()))


def words_of(
    what: str | None, sizes: Sequence[str] | None, constants: Sequence[str] | None, inputs: Sequence[str] | None
) -> str:
    """The same as a person typed it."""
    options = [f"--constant {name}" for name in constants or ()] + [f"--input {one}" for one in inputs or ()]
    return " ".join([what or "", *(sizes or ()), *options])
