"""The command line `tune ...` (also `tilesmith ...` and `python -m tilesmith ...`): thin; it asks others and prints.

A command is a line of `COMMANDS`: its module is imported when it is called.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...common.errors import TilesmithError, UserError
from .shell.lazy import CommandEntry, as_called, called_by, lazy_group
from .shell.output import guarded_output
from .shell.scripts import use_our_scripts

COMMANDS = {
    "run": CommandEntry(
        ".run:run", "Searches for the fastest kernel of WHAT, or of several.",
        (
            "tune run matmul m=512 n=512 k=512 --trials 64",
            "tune run examples/layer.tensor --time 60s",
            "tune run matmul m=64 n=64 k=64 softmax rows=64 columns=64 --trials 128 --weights 12,1",
        ),
    ),
    "watch": CommandEntry(
        ".watch:watch", "Shows a search that runs in another terminal.", ("tune watch", "tune watch --once")
    ),
    "show": CommandEntry(
        ".show:show", "Lists tasks; with WHAT its records, and failures.",
        ("tune show", "tune show matmul m=512 n=512 k=512 --limit 5"),
    ),
    "best": CommandEntry(
        ".show:best", "Shows the best records, with the lines to paste.", ("tune best matmul m=512 n=512 k=512",)
    ),
    "explain": CommandEntry(
        ".tell:explain", "Tells all about one record, or how a model is cut into kernels.",
        ("tune explain 1", "tune explain 1 --compile-time", "tune explain examples/layer.tensor"),
    ),
    "report": CommandEntry(
        ".report_page:write_report", "Writes one page about searches, for a browser.",
        ("tune report", "tune report matmul m=512 n=512 k=512 -o report.html"),
    ),
    "inspect": CommandEntry(
        ".inspect:inspect", "Prints WHAT at a stage of its way to machine code.",
        ("tune inspect matmul m=512 n=512 k=512 --stage outline", "tune inspect examples/layer.tensor --stage asm"),
    ),
    "profile": CommandEntry(
        ".profile:profile", "Tells where the time of WHAT goes, kernel by kernel.",
        (
            "tune profile examples/layer.tensor",
            "tune profile matmul m=512 n=512 k=512 --trace timeline.json --flame flame.svg",
        ),
    ),
    "diff": CommandEntry(
        ".diff:diff", "Prints how two records differ at a stage, one at two stages, or two logs.",
        ("tune diff 1 2", "tune diff 1 2 --stage asm", "tune diff 1:outline 1:loops", "tune diff old.jsonl new.jsonl"),
    ),
    "bench": CommandEntry(
        ".bench:bench", "Times WHAT beside other libraries, in the same rounds.",
        (
            "tune bench matmul m=512 n=512 k=512 --against numpy,torch",
            "tune bench examples/layer.tensor --against numpy --json",
        ),
    ),
    "compile": CommandEntry(
        ".export:compile_library", "Writes WHAT as a C library with a header.",
        ("tune compile matmul m=512 n=512 k=512 -o out", "tune compile softmax rows=64 columns=64 --threads 1 -o softmax"),
    ),
    "quantize": CommandEntry(
        ".quantize:quantize_model", "Saves the model WHAT in fewer bits.",
        ("tune quantize model.onnx --scheme dynamic-int8 -o small.model",),
    ),
    "replay": CommandEntry(".tell:replay", "Builds, checks and times one record again.", ("tune replay 1",)),
    "ops": CommandEntry(
        ".tell:list_operators", "Lists the operators with their parameters and inputs.",
        ("tune ops", "tune ops conv2d", "tune ops norm"),
    ),
    "doctor": CommandEntry(
        ".doctor:doctor", "Tells what is there, what is missing, and what adds it.", ("tune doctor", "tune doctor --json")
    ),
    "env": CommandEntry(".tell:env", "Tells versions, this machine, and where things are kept.", ("tune env",)),
    "log": CommandEntry(
        ".log:log", "Records as JSON lines: export, import, merge, check.",
        (
            "tune log export team.jsonl --best 4",
            "tune log check team.jsonl",
            "tune log import team.jsonl",
            "tune log merge all.jsonl team.jsonl",
            "tune log ship shipped.jsonl --best 2",
        ),
    ),
    "cluster": CommandEntry(
        ".cluster:cluster", "What goes on at a Ray cluster, and whether its nodes can be used.",
        ("tune cluster check ray", "tune cluster status ray"),
    ),
}  # fmt: skip

app = typer.Typer(
    cls=lazy_group(__package__, COMMANDS), no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Searches for the fastest way to compute a tensor program, and remembers it.",
)  # fmt: skip


use_our_scripts()


def main() -> None:
    """Runs the command line. A person's mistake is one clear message and exit code 2; any other error of ours is 1."""
    file = Path(sys.argv[0]).name
    name = "python -m tilesmith" if file == "__main__.py" else file
    with guarded_output():
        try:
            app(prog_name=name)
        except TilesmithError as error:
            _tell(as_called(str(error), called_by(name)))
            sys.exit(2 if isinstance(error, UserError) else 1)


def _tell(error: str) -> None:
    from rich.text import Text

    from ..terminal import make_console

    make_console(stderr=True).print(Text(f"error: {error}"), soft_wrap=True)


def _say_versions(asked: bool) -> None:
    """All that the code of a kernel depends on, in one line, and nothing else is done."""
    if asked:
        from ..terminal import make_console
        from .about import version_line

        make_console().print(version_line(), soft_wrap=True)
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_versions, is_eager=True, help="tell the versions, and end"),
    ] = False,
) -> None:
    """Searches for the fastest way to compute a tensor program, and remembers it."""


if __name__ == "__main__":
    main()
