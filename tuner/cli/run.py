"""`tune run`: searches, and keeps everything that it measures."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from ...common.errors import ArgumentError
from .named.input_specs import read_inputs_given
from .parameters import AccuracyName, Constants, DatabasePath, Inputs, Named, Threads, open_to_read
from .shell.completion import complete_size, complete_strategy, complete_target

INTERRUPTED = 130  # exit code after ctrl-C, as shells have it


def run(
    what: Named,
    sizes: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            help="sizes and options, as in m=1024; then, if wanted, more WHATs with theirs",
            autocompletion=complete_size,
        ),
    ] = None,
    *,
    constant: Constants = None,
    input: Inputs = None,
    trials: Annotated[Optional[int], typer.Option(help="new measurements to make")] = None,  # noqa: UP045
    time: Annotated[Optional[str], typer.Option(help="when to end: 90s, 2m, 1.5h")] = None,  # noqa: UP045
    target: Annotated[
        str,
        typer.Option(
            help="what to make kernels for; on a cluster several, with commas", autocompletion=complete_target
        ),
    ] = "host",
    threads: Threads = None,
    effort: Annotated[str, typer.Option(help="quick, normal or full")] = "normal",
    strategy: Annotated[
        str, typer.Option(help="how candidates are chosen", autocompletion=complete_strategy)
    ] = "guided",
    runner: Annotated[
        str, typer.Option(help="where to measure: local, ray, ray://host:port, or a file with an address")
    ] = "local",
    template: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="search the schedules of this function, package.module:function, instead of the rules'"),
    ] = None,
    weights: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="how often each of several WHATs is needed, as in 12,1; they share the budget"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="the same seed proposes the same")] = 0,
    accuracy: AccuracyName = "default",
    inputs: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="an .npz file with arrays for the trials by the names of inputs; the others are drawn"),
    ] = None,
    progress: Annotated[bool, typer.Option(help="show progress while it runs")] = True,
    db: DatabasePath = None,
) -> None:
    """Searches for the fastest kernel of WHAT, and keeps everything that it measures."""
    from ...tensor.accuracy import accuracy_named
    from ..inputs import read_inputs
    from ..several import tune_targets
    from ..terminal import make_console
    from .named.what import load_function, read_whats
    from .outcomes import tell_outcomes

    found = read_whats([what, *(sizes or ())], constant or (), read_inputs_given(input or ()))
    targets = target.split(",")
    result = tune_targets(
        [one.made.model if one.made else one.program for one in found], targets, trials=trials,
        seconds=None if time is None else read_time(time), threads=threads, strategy=strategy, runner=runner, db=db,
        seed=seed, progress=progress, effort=effort, template=None if template is None else load_function(template),
        weights=None if weights is None else read_weights(weights), accuracy=accuracy_named(accuracy),
        inputs=None if inputs is None else read_inputs(inputs),
    )  # fmt: skip
    console = make_console()
    with open_to_read(db) as database:
        tell_outcomes(console, database, found, result, whole=bool(template or inputs), db=db)
    if result.interrupted:
        console.print("\ninterrupted: the same command continues it")
        sys.exit(INTERRUPTED)


def read_weights(text: str) -> list[float]:
    """The numbers of "12,1". Errors: ArgumentError."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--weights {text} are no weights", expected="a number for each WHAT, as in 12,1") from None


def read_time(text: str) -> float:
    """Seconds of "90", "90s", "2m" or "1.5h". Errors: ArgumentError."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)", text.strip(), re.ASCII)
    if match is None:
        raise ArgumentError(f"--time {text} is no time", expected="seconds, or 90s, 2m, 1.5h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
