"""Tables for people: ranked records, tasks, why things failed, where the time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from ...measure.result import Purpose
from ...schedules.sketch import parse_sketch
from ...targets.target import parse_target
from ...tensor.program import Tensor
from ...tensor.text.parse import parse
from ..display import config_text, place_text, program_title, task_title
from ..failures import reasons
from ..outcome import TaskResult, TuneResult
from ..records.claims import ceilings_of, known_program
from ..records.data import Record, TaskIdentity
from ..records.database import Database
from ..roofline import Speed, Work, program_work
from ..search.rounds import Round
from ..terminal import pairs
from ..units import time_text
from .named.what import What
from .narrow import RoomyTable

_LONG = frozenset(("program", "config", "message", "to see it again"))  # headings of what may take several lines

DISTURBED = 1.5  # a confirmed time that is this many times the searched one is told


def sketch_title(database: Database, key: str) -> str:
    """The sketch's name and variants."""
    found = database.sketch(key)
    return parse_sketch(found.text).title if found and found.text else "unscheduled nest"


def task_tables(database: Database, tasks: Iterable[TaskIdentity]) -> RenderableType:
    """All tasks with their best record, a table for each target and number of threads."""
    groups: dict[str, list[TaskIdentity]] = {}
    for task in tasks:
        groups.setdefault(place_text(task), []).append(task)
    return Group(*(titled(place, _task_table(database, group)) for place, group in groups.items()))


def _task_table(database: Database, tasks: Iterable[TaskIdentity]) -> Table:
    rows = table("task", "program", ">trials", ">best", ">speed", ">ceiling", ">record")
    for task in tasks:
        program = known_program(task.display)
        row = [task.key[:8], program_title(task.display), str(database.searched(task.key))]
        best = database.best(task.key)
        rows.add_row(
            *row, *(_measured(database, best[0], task, program_work(program)) if best else ["none", "", "", ""])
        )
    return rows


def _measured(database: Database, record: Record, task: TaskIdentity, work: Work) -> list[str]:
    speed = _speed(database, record, task, work)
    return [time_text(record.seconds), str(speed), f"{speed.share:.1%}", str(record.id)]


def _speed(database: Database, record: Record, task: TaskIdentity, work: Work) -> Speed:
    return work.speed(record.seconds, ceilings_of(database, record, task))


def record_table(database: Database, task: TaskIdentity, records: Sequence[Record]) -> RenderableType:
    """Records in the order given (`database.rank`: not to be ranked twice), with config and sketch, by number, below."""
    work = program_work(known_program(task.display))
    numbers: dict[str, str] = {}
    rows = table(">record", ">time", ">speed", ">ceiling", "measured", ">sketch", "config")
    for record in records:
        time, speed, share, number = _measured(database, record, task, work)
        sketch = numbers.setdefault(record.trial.sketch, str(len(numbers) + 1))
        rows.add_row(number, time, speed, share, str(record.trial.purpose), sketch, config_text(record.config))
    sketches = {f"sketch {number}": sketch_title(database, key) for key, number in numbers.items()}
    return Group(rows, Text(), pairs(sketches)) if numbers else Text("no candidate has run yet")


def failure_table(records: Iterable[Record], database: Path) -> Table:
    """Failures by kind, the commonest first, each with the command that reproduces one."""
    rows = table(">count", "failure", "stage", "message", "to see it again")
    for reason in reasons(records):
        rows.add_row(
            str(len(reason.records)), str(reason.status), reason.stage, reason.message, reason.command(database)
        )
    return rows


def outcome(database: Database, result: TaskResult) -> RenderableType:
    """Returns what a search has left: the best, how the trials ended, where the time went."""
    parts: list[RenderableType] = [best_facts(database, result.task, [result.best] if result.best else [])]
    spent = result.spent
    doubt = disturbed(result)
    facts = {
        **({"note": doubt} if doubt else {}),
        **({"space": exhausted_text(result.exhausted)} if result.exhausted else {}),
        "trials": status_line(result.records),
        "time": f"{spent.wall:.1f} s: search {spent.search:.1f}, compile {spent.compile:.1f}, check {spent.check:.1f}, "
        f"measure {spent.measure:.1f} (some at the same time)",
    }
    parts.append(pairs(facts))
    if any(not record.trial.measurement.ok for record in result.records):
        parts += ["", failure_table(result.records, database.path)]
    return titled(task_title(result.task), Group(*parts))


def exhausted_text(configs: int) -> str:
    """Says why a search ended before its budget."""
    return f"all {configs} configs that it has were measured: more trials would find nothing new"


def together(database: Database, result: TuneResult) -> RenderableType:
    """One line for each task of a search: where its trials went, and what they brought."""
    rows = table("task", "program", ">trials", ">first", ">best", ">gain", ">speed", ">ceiling", ">record")
    for task in result.tasks:
        searched = _searched(task.records)
        row = [task.task.key[:8], program_title(task.task.display), str(len(searched))]
        if task.best is None:
            rows.add_row(*row, "none", "none", "", "", "", "")
            continue
        first = next((r.seconds for r in searched if r.seconds < float("inf")), task.best.seconds)
        time, *rest = _measured(database, task.best, task.task, program_work(parse(task.task.display)))
        rows.add_row(*row, time_text(first), time, f"{first / task.best.seconds:.2f}x", *rest)
    return rows


def model_table(database: Database, task: TaskIdentity) -> RenderableType:
    """Returns what the model said of each batch of the last run that has any, before it was measured, against what was
    measured."""
    for run in database.runs(task.key):
        rounds = []
        for text in database.rounds(run.id):
            with suppress(ValueError, RecursionError):  # what is no round of this version is not shown
                rounds.append(Round.from_json(text))
        if rounds:
            break
    else:
        return Text("no model was asked about this task: `--strategy guided` asks one")
    rows = table(
        ">batch", ">trials known", ">of other tasks", ">measured", ">failed", ">rank correlation", ">a-peak@batch",
        ">recall of best", ">regret of first", ">error", ">fit",
    )  # fmt: skip
    for r in rounds:
        rows.add_row(
            str(r.number + 1), str(r.known - r.foreign), str(r.foreign), str(r.batch), str(r.failed),
            f"{r.correlation:.2f}", f"{r.peak:.1%}", f"{r.recall:.0%}", f"{r.regret:.1%}", f"{r.error:.1%}",
            time_text(r.seconds),
        )  # fmt: skip
    return rows


def disturbed(result: TaskResult) -> str:
    """A remark where the best kernel took far longer when it was confirmed than in the search; else nothing."""
    best = result.best
    if best is None or best.trial.purpose is not Purpose.CONFIRM:
        return ""
    place = (best.trial.sketch, best.trial.config)
    before = [r.seconds for r in _searched(result.records) if (r.trial.sketch, r.trial.config) == place and r.seconds]
    if not before or best.seconds <= DISTURBED * min(before):
        return ""
    return f"it took {time_text(min(before))} in the search; where other programs use the machine, neither is certain"


def status_line(records: Iterable[Record]) -> str:
    """`128 trials: 120 ok (97 dropped early), 8 crash; 4 measured again`: what was confirmed is no new trial.

    Of a log that holds the best of a search alone, all may be confirmations: `2 confirmations`.
    """
    made = list(records)
    searched = _searched(made)
    counts = Counter(str(record.trial.measurement.status) for record in searched)
    dropped = sum(record.trial.measurement.abandoned for record in searched)
    notes = {"ok": f" ({dropped} dropped early, clearly slower)" if dropped else ""}
    ends = ", ".join(f"{count} {status}{notes.get(status, '')}" for status, count in counts.most_common())
    confirmed = [record.trial.measurement for record in made if record.trial.purpose is not Purpose.SEARCH]
    failed = Counter(str(measurement.status) for measurement in confirmed if not measurement.ok)
    bad = f" ({', '.join(f'{count} {status}' for status, count in failed.most_common())})" if failed else ""
    if confirmed and not searched:
        return f"{len(confirmed)} confirmation{'s' if len(confirmed) > 1 else ''}{bad}"
    noun = "trial" if len(searched) == 1 else "trials"
    return f"{len(searched)} {noun}{': ' if ends else ''}{ends}{f'; {len(confirmed)} measured again{bad}' if confirmed else ''}"


def _searched(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.trial.purpose is Purpose.SEARCH]


def best_facts(database: Database, task: TaskIdentity, found: Sequence[Record]) -> RenderableType:
    """The best record of a task: time, speed, schedule."""
    if not found:
        return Text("no candidate has run yet")
    best = found[0]
    speed, number = _speed(database, best, task, program_work(known_program(task.display))), best.id
    time = time_text(best.seconds)
    if parse_target(task.target).is_emulator:
        facts = {f"record {number}": f"{time} of emulation: wall clock, which says nothing about any GPU"}
    else:
        facts = {f"record {number}": f"{time}, {speed}, {speed.share:.1%} of {speed.of}"}
    facts["sketch"] = sketch_title(database, found[0].trial.sketch)
    if found[0].config:
        facts["config"] = config_text(found[0].config)
    return pairs(facts)


def paste_lines(task: TaskIdentity, what: What | None, db: Path | None) -> str:
    """Python that compiles the best known kernel of a task; without `what`, the program stands there as text.

    It runs as it is: constants are given as zeros, to be replaced; those of a model have their values.
    """
    options = f", threads={task.threads}"
    if task.target != parse_target("host").text:
        options += f", target={task.target!r}"
    if task.accuracy != "default":
        options += f", accuracy={task.accuracy!r}"
    if db is not None:
        options += f", db={str(db)!r}"
    lines = ["import tilesmith"]
    if what is not None and what.module:
        lines.append(f"import {what.module}")
    made = what.made if what is not None else None
    if made is not None:
        lines += ["import torch"] if any("torch." in line for line in made.lines) else []
        lines += made.lines
    constants = (what.program if what is not None else known_program(task.display)).constant_inputs
    if constants and made is None:
        lines.insert(0, "import numpy")
        lines += ["constants = {", *(f"    {one.name!r}: {_zeros(one)}" for one in constants), "}"]
        options += ", constants=constants"
    program = what.python if what is not None else f'tilesmith.parse("""\n{task.display.strip()}\n""")'
    return "\n".join([*lines, f"kernel = tilesmith.compile({program}{options})"])


def _zeros(constant: Tensor) -> str:
    """A place for the values of a constant."""
    shape = ", ".join(map(str, constant.shape)) + ("," if len(constant.shape) == 1 else "")
    note = "; bf16: a torch tensor, or bit patterns" if constant.dtype.name == "bf16" else ""
    return f"numpy.zeros(({shape}), {str(constant.dtype.numpy)!r}),  # your values here{note}"


def titled(title: str, *body: RenderableType) -> Group:
    """Puts a heading over what is rendered."""
    return Group(Text(title, style="bold"), *body, Text())


@dataclass(frozen=True, slots=True)
class OneLineEach:
    """A text whose lines mean something by their indentation: a terminal cuts what is too long, a file gets all of it."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Renders it for rich."""
        whole = Text(self.text, no_wrap=True, overflow="ellipsis" if console.is_terminal else "ignore")
        yield from console.render(whole, options.update(no_wrap=True, overflow=whole.overflow))


def table(*headings: str) -> Table:
    """A table without frames; a heading that starts with ">" stands to the right. In a narrow terminal words give way."""
    return RoomyTable(*headings, long=_LONG)
