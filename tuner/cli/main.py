"""The command line `tune ...` (also `tilesmith ...` and `python -m tilesmith ...`): thin; it asks others and prints."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.text import Text

from ...common.errors import ArgumentError, NoRecordError, TilesmithError, UserError
from ...common.printable import printable
from ...common.settings import DATABASE
from ...tensor.accuracy import accuracy_named
from ...tensor.text.canonical import program_key
from ..display import task_title
from ..inputs import read_inputs
from ..records.claims import understood
from ..records.data import TaskIdentity
from ..records.database import Database
from ..records.ranking import rank
from ..terminal import guarded_output, make_console
from .bench import bench
from .cluster import cluster
from .doctor import doctor
from .export import compile_library
from .input_specs import read_inputs_given
from .inspect import diff, inspect
from .known import is_key, known_record
from .log import log
from .parameters import WHAT_HELP, AccuracyName, Constants, DatabasePath, Inputs, Named, SizeOptions, Threads
from .profile import profile
from .quantize import quantize_model
from .report_page import write_report
from .watch import watch
from .what import What, load_function, read_what, read_whats

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Searches for the fastest way to compute a tensor program, and remembers it.",
)  # fmt: skip

app.command("compile", short_help="Writes WHAT as a C library with a header.")(compile_library)
app.command("quantize", short_help="Saves the model WHAT in fewer bits.")(quantize_model)
app.command("report", short_help="Writes one page about searches, for a browser.")(write_report)
app.command("inspect", short_help="Prints WHAT at a stage of its way to machine code.")(inspect)
app.command("profile", short_help="Tells where the time of WHAT goes, kernel by kernel.")(profile)
app.command("diff", short_help="Prints how two records differ at a stage.")(diff)
app.command("bench", short_help="Times WHAT beside other libraries, in the same rounds.")(bench)
app.command("watch", short_help="Shows a search that runs in another terminal.")(watch)
app.command("doctor", short_help="Tells what is there, what is missing, and what adds it.")(doctor)
app.add_typer(log, name="log")
app.add_typer(cluster, name="cluster")

INTERRUPTED = 130  # exit code after ctrl-C, as shells have it

Selection = Annotated[Optional[str], typer.Argument(help=WHAT_HELP + ", or the first digits of a task")]  # noqa: UP045
RecordId = Annotated[int, typer.Argument(help="a record's number, as `tune show` prints it")]


def main() -> None:
    """Runs the command line. A person's mistake is one clear message and exit code 2; any other error of ours is 1."""
    name = Path(sys.argv[0]).name
    with guarded_output():
        try:
            app(prog_name="python -m tilesmith" if name == "__main__.py" else name)
        except TilesmithError as error:
            make_console(stderr=True).print(Text(f"error: {error}"), soft_wrap=True)
            sys.exit(2 if isinstance(error, UserError) else 1)


def _say_versions(asked: bool) -> None:
    """All that the code of a kernel depends on, in one line, and nothing else is done."""
    if asked:
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


@app.command(short_help="Searches for the fastest kernel of WHAT, or of several.")
def run(
    what: Named,
    sizes: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="sizes and options, as in m=1024; then, if wanted, more WHATs with theirs"),
    ] = None,
    *,
    constant: Constants = None,
    input: Inputs = None,
    trials: Annotated[Optional[int], typer.Option(help="new measurements to make")] = None,  # noqa: UP045
    time: Annotated[Optional[str], typer.Option(help="when to end: 90s, 2m, 1.5h")] = None,  # noqa: UP045
    target: Annotated[str, typer.Option(help="what to make kernels for; on a cluster several, with commas")] = "host",
    threads: Threads = None,
    effort: Annotated[str, typer.Option(help="quick, normal or full")] = "normal",
    strategy: Annotated[str, typer.Option(help="how candidates are chosen")] = "guided",
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
    from ..several import tune_targets
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
    with _open(db) as database:
        tell_outcomes(console, database, found, result, whole=bool(template or inputs), db=db)
    if result.interrupted:
        console.print("\ninterrupted: the same command continues it")
        sys.exit(INTERRUPTED)


@app.command(short_help="Lists tasks; with WHAT its records, and failures.")
def show(
    what: Selection = None,
    sizes: SizeOptions = None,
    *,
    constant: Constants = None,
    input: Inputs = None,
    limit: Annotated[int, typer.Option(min=1, help="how many records of each task")] = 20,
    model: Annotated[bool, typer.Option("--model", help="how good the cost model was, batch by batch")] = False,
    db: DatabasePath = None,
) -> None:
    """Lists tasks; for WHAT or one task its records, best first, and failures by kind; for a model its kernels."""
    from . import report
    from .outcomes import tell_model

    console = make_console()
    found = _named(what, sizes, constant, input)
    with _open(db) as database:
        if found is not None and found.is_cut:
            tell_model(console, database, found, _words(what, sizes, constant, input))
            return
        tasks = _tasks(database, what, found, _words(what, sizes, constant, input))
        if what is None and not model:
            console.print(report.task_tables(database, tasks))
            return
        for task in tasks:
            if model:
                console.print(report.titled(task_title(task), report.model_table(database, task)))
                continue
            records = database.records(task.key)
            console.print(report.titled(task_title(task), report.status_line(records)))
            console.print(report.record_table(database, task, rank(records)[:limit]))
            if any(not record.trial.measurement.ok for record in records):
                console.print()
                console.print(report.failure_table(records, database.path))


@app.command(short_help="Shows the best records, with the lines to paste.")
def best(
    what: Selection = None,
    sizes: SizeOptions = None,
    *,
    constant: Constants = None,
    input: Inputs = None,
    db: DatabasePath = None,
) -> None:
    """Shows the best record of each task, with the lines to paste; for a model what it would run at now."""
    from . import report
    from .outcomes import tell_best

    console = make_console()
    found = _named(what, sizes, constant, input)
    with _open(db) as database:
        if found is not None and found.is_cut:
            tell_best(console, database, found, _words(what, sizes, constant, input), db)
            return
        for task in _tasks(database, what, found, _words(what, sizes, constant, input)):
            records = database.best(task.key)
            console.print(report.titled(task_title(task), report.best_facts(database, task, records)))
            console.print(Text(f"{report.paste_lines(task, found, db)}\n"), soft_wrap=True)


@app.command(short_help="Tells all about one record, or how a model is cut into kernels.")
def explain(
    what: Annotated[str, typer.Argument(help="a record's number, as `tune show` prints it, or a model")],
    sizes: SizeOptions = None,
    *,
    input: Inputs = None,
    compile_time: Annotated[
        bool, typer.Option("--compile-time", help="compile it again: seconds of each pass")
    ] = False,
    code: Annotated[bool, typer.Option("--code", help="build it again: assembly, or PTX and SASS")] = False,
    db: DatabasePath = None,
) -> None:
    """Tells all about one record: program, schedule, config, what was measured and what bounds it. Of a model, or a program of
    several kernels: which those are, and which layers they come from."""
    from .explain import code_text, compile_table, explanation

    if not what.isdecimal():
        from ..explain import explain as explain_program

        if code or compile_time:
            raise ArgumentError("--code and --compile-time are of one record", found=what)
        made = read_what(what, sizes or (), (), read_inputs_given(input or ()))
        make_console().print(Text(str(explain_program(made.made.model if made.made else made.program))), soft_wrap=True)
        return
    record = int(what)
    with _open(db) as database:
        if code:
            print(printable(code_text(database, *known_record(database, record))))
            return
        tell = compile_table if compile_time else explanation
        make_console().print(tell(database, *known_record(database, record)))


@app.command(short_help="Builds, checks and times one record again.")
def replay(
    record: RecordId,
    *,
    seed: Annotated[Optional[int], typer.Option(min=0, help="of the data that a wrong result named")] = None,  # noqa: UP045
    db: DatabasePath = None,
) -> None:
    """Builds, checks and times one record again, and says whether it differs from what was recorded."""
    from .explain import replayed

    with _open(db) as database:
        outcome = replayed(database, *known_record(database, record), seed)
    make_console().print(outcome.text)
    if not outcome.agrees:
        sys.exit(1)


@app.command("ops", short_help="Lists the operators with their parameters and inputs.")
def list_operators(
    name: Annotated[Optional[str], typer.Argument(help="an operator, or a part of a name")] = None,  # noqa: UP045
) -> None:
    """Lists the operators with their parameters and inputs; tells all about the one that is named."""
    from .ops import operators_text

    make_console().print(operators_text(name))


@app.command(short_help="Tells versions, this machine, and where things are kept.")
def env(*, db: DatabasePath = None) -> None:
    """Tells versions, this machine, the database's place, and which `tune` comes first on PATH."""
    from . import report
    from .about import environment_facts

    console = make_console()
    for title, facts in environment_facts(db).items():
        console.print(report.titled(title, report.pairs(facts)), soft_wrap=True)


def _open(path: Path | None) -> Database:
    """The database to read from."""
    return Database(path or DATABASE.value(), read_only=True)


def _named(
    what: str | None, sizes: Sequence[str] | None, constants: Sequence[str] | None, inputs: Sequence[str] | None
) -> What | None:
    """The program or model that a person names; None for all tasks, and for one by its key."""
    if what is None or is_key(what):
        return None
    return read_what(what, sizes or (), constants or (), read_inputs_given(inputs or ()))


def _words(
    what: str | None, sizes: Sequence[str] | None, constants: Sequence[str] | None, inputs: Sequence[str] | None
) -> str:
    """The same as a person typed it."""
    options = [f"--constant {name}" for name in constants or ()] + [f"--input {one}" for one in inputs or ()]
    return " ".join([what or "", *(sizes or ()), *options])


def _tasks(database: Database, what: str | None, found: What | None, words: str) -> list[TaskIdentity]:
    """Tasks that a person means: all, those of a program, or those whose key begins so. Errors: NoRecordError for none."""
    tasks = understood(database.tasks())
    if what is None:
        return tasks
    if found is None:
        tasks = [task for task in tasks if task.key.startswith(what)]
    else:
        key = program_key(found.program)
        tasks = [task for task in tasks if task.program_key == key]
    if not tasks:
        raise NoRecordError(
            f"the database has no records of {words}",
            found=str(database.path),
            advice="`tune show` lists all tasks" if found is None else f"tune run {words}",
        )
    return tasks


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


if __name__ == "__main__":
    main()
