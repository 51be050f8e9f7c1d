"""`tune inspect` and `tune diff`: texts of stages, of what a person names, and of two records side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Optional

import typer

from ...common.errors import ArgumentError
from ...common.near import did_you_mean
from ...common.printable import printable
from ...common.settings import DATABASE
from ...runtime.kernel import text_stages
from ...targets.target import parse_target
from ...tensor.accuracy import accuracy_named
from ...tensor.text.parse import parse
from ..apply.kernel_texts import KernelTexts
from ..records.database import Database
from ..stages import stage_text
from .named.input_specs import read_inputs_given
from .named.known import known_record, record_sketch
from .named.what import read_what
from .parameters import AccuracyName, Constants, DatabasePath, Inputs, Named, RecordId, SizeOptions, Threads
from .shell.completion import complete_record


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


def diff(
    first: RecordId,
    second: Annotated[int, typer.Argument(help="another one's", autocompletion=complete_record)],
    *,
    stage: Annotated[str, typer.Option(help="program, sketch, outline, loops, llvm or asm")] = "outline",
    db: DatabasePath = None,
) -> None:
    """Prints how two records differ at a stage, in the form of `diff -u`; the code is made again."""
    with Database(db or DATABASE.value(), read_only=True) as database:
        texts = [_stage_of(database, number, stage) for number in (first, second)]
    before, after = (list(_lines(text)) for text in texts)
    lines = difflib.unified_diff(before, after, f"record {first}", f"record {second}", lineterm="")
    print(printable("\n".join(lines)) or f"records {first} and {second} have the same {stage}")


def _lines(text: str) -> Iterator[str]:
    return (line.rstrip() for line in text.splitlines())


def _stage_of(database: Database, number: int, stage: str) -> str:
    record, task = known_record(database, number)
    target = parse_target(task.target)
    if stage not in text_stages(target):
        stages = text_stages(target)
        raise ArgumentError(
            f"there is no stage {stage!r}", expected="one of " + ", ".join(stages), advice=did_you_mean(stage, stages)
        )
    if not record.trial.measurement.ok:
        raise ArgumentError(f"the trial of record {number} failed", expected="a record of a kernel that ran")
    head = "".join(f"# {name} = {value}\n" for name, value in record.config.items())
    texts = KernelTexts(parse(task.display), record_sketch(database, record), record.config, target, task.threads)
    return head + texts(stage)
