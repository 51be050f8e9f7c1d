"""`tune inspect`: texts of stages of what a person names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from ...common.printable import printable
from ...targets.target import parse_target
from ...tensor.accuracy import accuracy_named
from ..stages import stage_text
from .named.input_specs import read_inputs_given
from .named.what import read_what
from .parameters import AccuracyName, Constants, DatabasePath, Inputs, Named, SizeOptions, Threads


def inspect(
    what: Named,
    sizes: SizeOptions = None,
    *,
    stage: Annotated[
        str,
        typer.Option(help="program, rewritten, kernels, sketch, outline, loops, llvm, asm; for GPUs ptx and sass"),
    ] = "outline",
    graph: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="draw stages and kernels here, coloured by time, instead: .svg (needs graphviz), or .dot"),
    ] = None,
    kernel: Annotated[Optional[int], typer.Option(help="of several only this one, by its number")] = None,  # noqa: UP045
    constant: Constants = None,
    input: Inputs = None,
    target: Annotated[str, typer.Option(help="what it is compiled for")] = "host",
    threads: Threads = None,
    accuracy: AccuracyName = "default",
    db: DatabasePath = None,
) -> None:
    """Prints WHAT at a stage of its way to machine code, with the best configurations that are known."""
    found = read_what(what, sizes or (), constant or (), read_inputs_given(input or ()))
    if graph is not None:
        from .drawing import write_graph

        given = found.made.model if found.made else found.program
        write_graph(graph, given, parse_target(target), threads, db, accuracy_named(accuracy))
        print(printable(f"written: {graph}"))
        return
    text = stage_text(
        found.program, stage, parse_target(target), kernel=kernel, threads=threads, db=db,
        accuracy=accuracy_named(accuracy),
    )  # fmt: skip
    print(printable(text))
