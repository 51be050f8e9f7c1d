"""`tune quantize`: a model in fewer bits, saved where `tune run` and `tilesmith.load` find it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.text import Text

from ...common.errors import ArgumentError
from ..inputs import read_inputs
from ..terminal import make_console
from .named.input_specs import read_inputs_given
from .named.what import read_what
from .parameters import Inputs


def quantize_model(
    what: Annotated[str, typer.Argument(help="an ONNX file, a saved model, or package.module:function")],
    sizes: Annotated[Optional[list[str]], typer.Argument(help="sizes that a file leaves open, as in batch=1")] = None,  # noqa: UP045
    *,
    scheme: Annotated[str, typer.Option(help="int8, int4, dynamic-int8, static-int8, or bf16")],
    out: Annotated[Path, typer.Option("--out", "-o", help="the folder that the model goes to")],
    calibration: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(help="an .npz file with the inputs of one call by their names; may be given again"),
    ] = None,
    group: Annotated[int, typer.Option(help="weights of four bits that share a scale")] = 64,
    weight_bits: Annotated[int, typer.Option(help="of weights in products of integers: 8, or 7")] = 8,
    percentile: Annotated[Optional[float], typer.Option(help="of data, which their range reaches")] = None,  # noqa: UP045
    threads: Annotated[Optional[int], typer.Option(help="threads that calibration runs on")] = None,  # noqa: UP045
    input: Inputs = None,
) -> None:
    """Quantises the model WHAT, says what that costs layer by layer, and saves it."""
    from ..apply.quantize import quantize

    found = read_what(what, sizes or (), (), read_inputs_given(input or ()))
    if found.made is None:
        raise ArgumentError(f"{what} is no model", expected="an ONNX file, a saved model, or package.module:function")
    given = [read_inputs(path) for path in calibration or ()]
    made = quantize(
        found.made.model,
        scheme,
        calibration=given or None,
        group=group,
        percentile=percentile,
        weight_bits=weight_bits,
        threads=threads,
    )
    made.save(out)
    console = make_console()
    console.print(Text(str(made.report)))
    console.print(Text(f"saved as {out}; tune run {out} tunes it"))
