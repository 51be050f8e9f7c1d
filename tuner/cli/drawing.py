"""`tune inspect WHAT --graph FILE`: stages and kernels as a picture, coloured by time where they run here."""

from __future__ import annotations

from pathlib import Path

from ...common.errors import ArgumentError
from ...graph.model import Model
from ...graph.profiling.drawing import DrawnKernel, dot_text, laid_out
from ...runtime.random_arguments import random_constants
from ...targets.target import Target, parse_target
from ...tensor.accuracy import Accuracy
from ...tensor.program import Program
from ..kernels import parts_of

DOT, PICTURE = ".dot", ".svg"


def write_graph(
    path: Path, what: Program | Model, target: Target, threads: int | None, db: Path | None, accuracy: Accuracy
) -> None:
    """Writes the picture. Errors: ArgumentError for a name of another kind, EnvironmentFailure without graphviz."""
    if path.suffix not in (DOT, PICTURE):
        raise ArgumentError(f"{path} is no picture of a graph", expected=f"a name that ends in {PICTURE} or {DOT}")
    program, name = (what.program, what.name) if isinstance(what, Model) else (what, path.stem)
    if path.suffix == PICTURE:
        laid_out("digraph {}")  # what is missing is told before anything is compiled
    parts = parts_of(program, target)
    programs = (program,) if parts is None else parts.kernels
    drawn = [DrawnKernel(f"kernel {n}", one) for n, one in enumerate(programs)]
    if target.kind == parse_target("host").kind:
        from ..apply.compile import compile

        constants = what.constants if isinstance(what, Model) else random_constants(program)
        kernel = compile(program, db=db, threads=threads, constants=constants, accuracy=accuracy, target=target)
        rows = kernel.profile(counters=False).rows
        drawn = [
            DrawnKernel(f"{n}: {row.call.name}", one, row.seconds, row.share)
            for n, (one, row) in enumerate(zip(programs, rows, strict=True))
        ]
    text = dot_text(name, drawn, {} if parts is None else parts.aliases)
    path.write_text(laid_out(text) if path.suffix == PICTURE else text, encoding="utf-8")
