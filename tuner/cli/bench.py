"""`tune bench`: the kernel of WHAT beside what other libraries make of it."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Optional

import typer
from rich.table import Table
from rich.text import Text

from ...common.settings import DATABASE
from ...measure.compare.method import Method, Quartiles
from ...targets.host import thread_count
from ...targets.target import parse_target
from ..display import short_target
from ..terminal import make_console
from ..units import time_text
from .named.input_specs import read_inputs_given
from .named.what import What, read_what
from .parameters import Constants, DatabasePath, Inputs, Named, SizeOptions
from .shell.completion import complete_peers

PEERS = "numpy,torch,torch.compile,onnxruntime,openvino"


def bench(
    what: Named,
    sizes: SizeOptions = None,
    *,
    against: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help=f"peers, with commas: of {PEERS},tvm; default: all but tvm, which is slow to prepare",
            autocompletion=complete_peers,
        ),
    ] = None,
    constant: Constants = None,
    input: Inputs = None,
    threads: Annotated[Optional[int], typer.Option(help="of all of them; default: all cores")] = None,  # noqa: UP045
    rounds: Annotated[int, typer.Option(min=1, help="in each of which every contender runs once")] = 9,
    seconds: Annotated[float, typer.Option(min=0.001, help="of each contender in each round")] = 0.3,
    as_json: Annotated[bool, typer.Option("--json", help="everything, as JSON")] = False,
    db: DatabasePath = None,
) -> None:
    """Times the best known kernel of WHAT beside other libraries: same inputs, same rounds, each in a process of its own.

    What a peer computes is compared with ours first; what differs is not timed, and the exit code is 1."""
    from ..bench.libraries import libraries_named
    from ..bench.race import compare

    asked = None if against is None else libraries_named(against)
    target = parse_target("host")
    count = thread_count(threads, target)
    _same_weights(what)
    found = read_what(what, sizes or (), constant or (), read_inputs_given(input or ()))
    names = asked or libraries_named(PEERS.removeprefix("numpy,") if found.made else PEERS)
    words = " ".join([what, *(sizes or ())])
    errors = make_console(stderr=True)
    method = Method(
        rounds=rounds,
        seconds=seconds,
        patience=rounds,
        report=lambda text: errors.print(Text(f"  {text}", style="dim")),
    )
    database = str(db or DATABASE.value())
    with TemporaryDirectory(prefix="tilesmith-bench-") as place:
        folder = Path(place)
        _subject(found, names, folder).write(folder)
        compared = compare(folder, names, count, method, database)
    if as_json:
        print(json.dumps(_document(words, found, compared, target.text, count), indent=1))
    else:
        _tell(words, found, compared, target, count)
    if not compared.agrees or compared.contenders[0].missing:
        sys.exit(1)


def _same_weights(what: str) -> None:
    """A function that draws weights draws the same ones each time."""
    if ":" in what:
        with suppress(ImportError):
            import torch

            torch.manual_seed(0)


def _subject(found: What, names: tuple[str, ...], folder: Path) -> Any:
    """Returns what the contenders are given, with the forms of a model that they read."""
    from ..bench.subject import MODULE, ONNX, Subject

    made = found.made
    if made is None:
        return Subject(found.program, None, found.operator, found.arguments)
    reasons: dict[str, str] = {}
    if made.module is None:
        reasons[MODULE] = "it runs modules of PyTorch: name the function that makes one, package.module:function"
        reasons[ONNX] = "it reads ONNX files, which a saved model is not"
    else:
        _write_forms(made, names, folder, reasons)
    onnx = "" if made.file is None else str(made.file.resolve())
    return Subject(found.program, made.model, onnx=onnx, reasons=reasons)


def _write_forms(made: Any, names: tuple[str, ...], folder: Path, reasons: dict[str, str]) -> None:
    """Writes a module of PyTorch as itself, and as ONNX where somebody reads that; what fails is a reason."""
    import torch

    from ..bench.subject import MODULE, ONNX

    try:
        torch.save(made.module, folder / MODULE)
    except Exception as error:  # whatever a module holds
        reasons[MODULE] = f"the module cannot be handed to another process: {error}"
    if not {"onnxruntime", "openvino", "tvm"}.intersection(names):
        return
    try:
        torch.onnx.export(made.module, made.args, str(folder / ONNX), dynamo=True, verbose=False)
    except Exception as error:  # whatever an exporter does
        missing = isinstance(error, ImportError) or "onnxscript" in str(error)
        reasons[ONNX] = (
            "pip install onnx onnxscript, by which torch writes ONNX"
            if missing
            else f"torch writes no ONNX of it: {error}"
        )


def _tell(words: str, found: What, compared: Any, target: Any, threads: int) -> None:
    from ...measure.calibrate.calibrate import known_ceilings
    from ..bench.libraries import OURS
    from ..roofline import program_work

    console = make_console()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title_justify="left")
    for heading in ("contender", "time", "speed", "ours is", "quartiles", "differs", ""):
        table.add_column(heading, justify="left" if heading in ("", "contender") else "right", overflow="fold")
    work, ceilings = program_work(found.program), known_ceilings(target, threads)
    for one in compared.contenders:
        if one.seconds is None:
            said = one.missing or f"computes something else: not timed ({one.how or 'its own function'})"
            gap = f"{one.difference:.1e}" if one.difference else ""
            table.add_row(one.name, "", "", "", "", gap, Text(said))
            continue
        ratio = one.ratio
        table.add_row(
            one.name, time_text(one.seconds.middle), str(work.speed(one.seconds.middle, ceilings)),
            f"{ratio.middle:.2f}x" if ratio else "", f"{ratio.low:.2f} .. {ratio.high:.2f}" if ratio else "",
            "" if one.difference is None else f"{one.difference:.0e}", Text(one.how),
        )  # fmt: skip
    plural = "" if threads == 1 else "s"
    console.print(
        Text(f"{words} on {short_target(target.text)}, {threads} thread{plural}", style="bold"), soft_wrap=True
    )
    console.print(table)
    console.print(Text(_noise_line(compared.rounds)))
    ours = next(one for one in compared.contenders if one.name == OURS)
    if ours.seconds and not ours.how.startswith("exact") and found.made is None:
        console.print(Text(f"it was not tuned here: tune run {words}"), soft_wrap=True)


def _noise_line(rounds: Any) -> str:
    count = len(next(iter(rounds.seconds.values()), ()))
    noisy = f", {rounds.noisy} of them while other programs used the machine" if rounds.noisy else ""
    return f"{count} rounds{noisy}; {rounds.repeated} repeated" if rounds.repeated else f"{count} rounds{noisy}"


def _document(words: str, found: What, compared: Any, target: str, threads: int) -> dict[str, object]:
    from ...measure.compare.noise import describe
    from ..roofline import program_work

    def spread(one: Quartiles | None) -> dict[str, float] | None:
        return None if one is None else asdict(one)

    work = program_work(found.program)
    rounds = compared.rounds
    return {
        "what": words, "target": target, "threads": threads, "flops": work.flops, "bytes": work.bytes, "machine": describe(),
        "contenders": [
            {
                "name": one.name, "how": one.how, "missing": one.missing, "difference": one.difference, "agrees": one.agrees,
                "seconds": spread(one.seconds), "ours_is_faster": spread(one.ratio),
            }
            for one in compared.contenders
        ],
        "rounds": {name: list(times) for name, times in rounds.seconds.items()},
        "rounds_repeated": rounds.repeated, "rounds_noisy": rounds.noisy,
    }  # fmt: skip
