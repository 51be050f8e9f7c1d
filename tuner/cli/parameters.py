"""Arguments and options that several commands have, with what `--help` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

WHAT_HELP = (
    "an operator (`tune ops` lists them), a .tensor file, an .onnx file, a saved model, or package.module:function, "
    "which makes a program, a model or a module of PyTorch"
)
Named = Annotated[str, typer.Argument(help=WHAT_HELP)]
SizeOptions = Annotated[Optional[list[str]], typer.Argument(help="sizes and options, as in m=1024")]  # noqa: UP045
Constants = Annotated[Optional[list[str]], typer.Option("--constant", help="an input known when compiling")]  # noqa: UP045
Inputs = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--input", help="of a model, once for each input: 1x3x224x224, i64[1,128], or mask=bool[1,128]"),
]
Threads = Annotated[Optional[int], typer.Option(help="threads of the kernels; default: all cores")]  # noqa: UP045
AccuracyName = Annotated[str, typer.Option(help="default, or strict: only orders of sums may change")]
DatabasePath = Annotated[Optional[Path], typer.Option("--db", help="the tuning database")]  # noqa: UP045
