"""`tune compile`: a program or a model as a C library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.text import Text

from ...common.errors import ArgumentError
from ...tensor.accuracy import accuracy_named
from ..inputs import read_inputs
from ..terminal import make_console, pairs
from .named.input_specs import read_inputs_given
from .named.what import What, read_what
from .parameters import AccuracyName, Constants, DatabasePath, Inputs, Named, SizeOptions, Threads


def compile_library(
    what: Named,
    sizes: SizeOptions = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="the folder that the library goes to")],
    targets: Annotated[
        str, typer.Option(help="what it is for, as in x86:avx512,x86:avx2: several are chosen from when it is loaded")
    ] = "host",
    name: Annotated[Optional[str], typer.Option(help="of the library, and the begin of its functions")] = None,  # noqa: UP045
    threads: Threads = None,
    openmp: Annotated[bool, typer.Option(help="threads are OpenMP's; else they are lent by the caller")] = True,
    inside: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option("--inside/--beside", help="weights are part of the library; default: up to 16 MiB"),
    ] = None,
    constant: Constants = None,
    constants: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="an .npz file with the values of constants by their names; a model brings its own"),
    ] = None,
    input: Inputs = None,
    accuracy: AccuracyName = "default",
    db: DatabasePath = None,
) -> None:
    """Writes the best kernels that are known of WHAT as a C library with a header: no Python is needed where it runs."""
    from ..apply.export import export

    found = read_what(what, sizes or (), constant or (), read_inputs_given(input or ()))
    made = export(
        found.made.model if found.made else found.program, out, targets=targets.split(","), name=name, db=db,
        threads=threads, constants=_values(found, constants), openmp=openmp, inside=inside,
        accuracy=accuracy_named(accuracy),
    )  # fmt: skip
    facts = {
        "header": str(made.header), "shared library": str(made.shared), "static library": str(made.static),
        "weights": str(made.weights or "inside of the libraries"), "for": ", ".join(made.targets),
        "example": f"cmake -S {out} -B {out}/build && cmake --build {out}/build && {out}/build/{made.name}_example",
    }  # fmt: skip
    if made.weights:
        facts["example"] += f" {made.weights}"
    make_console().print(pairs({label: Text(fact) for label, fact in facts.items()}), soft_wrap=True)


def _values(found: What, path: Path | None) -> dict[str, Any] | None:
    """The constants in a file. Errors: ArgumentError."""
    wanted = [] if found.made else [tensor.name for tensor in found.program.constant_inputs]
    if path is None:
        if wanted:
            raise ArgumentError("the values of constants are not known", expected=f"--constants FILE.npz with {wanted}")
        return None
    if not wanted:
        raise ArgumentError(f"there are no constants to be taken from {path}")
    values = read_inputs(path)
    return {name: values[name] for name in wanted if name in values}
