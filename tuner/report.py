"""Tables for people: ranked records, tasks, why things failed, where the time went."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..measure.result import Purpose
from ..schedules.sketch import parse_sketch
from ..targets.ceilings import Ceilings, default_ceilings
from ..targets.target import parse_target
from ..tensor.program import Program
from ..tensor.text import parse
from .database import Database, rank
from .failures import reasons
from .outcome import TaskResult
from .records import Record, TaskIdentity
from .roofline import Work, program_work

_WIDE = 200  # columns where the output is no terminal


def make_console(*, stderr: bool = False) -> Console:
    """A console that does not cut its lines where the output is a file or a pipe, and takes brackets for brackets."""
    width = None if (sys.stderr if stderr else sys.stdout).isatty() else _WIDE
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def time_text(seconds: float) -> str:
    """`1.234 ms`: four digits in the unit that suits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


def size_text(size: float) -> str:
    """`1.5 MB`: three digits in the unit that suits."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


def short_target(text: str) -> str:
    """The target without its sizes: `x86:avx512+avx512vnni`."""
    return text.partition(";")[0]


def program_title(program: Program) -> str:
    """The last stage with its sizes, as in `C[1024, 1024] sum[1024]`: enough to tell tasks apart."""
    stage = program.stages[-1]
    sizes = ", ".join(str(axis.extent) for axis in stage.axes)
    reduced = f" {stage.combiner}[{', '.join(str(axis.extent) for axis in stage.reduction)}]" if stage.reduction else ""
    more = f" + {len(program.stages) - 1} more" if len(program.stages) > 1 else ""
    operator = f"{stage.origin.operator} " if stage.origin.operator else ""
    return f"{operator}{stage.name}[{sizes}]{reduced}{more}"


def config_text(config: Mapping[str, object]) -> str:
    """`i.tile=8 k.block=256`."""
    return " ".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in config.items()
    )


def sketch_title(database: Database, key: str) -> str:
    """The sketch's name and variants."""
    found = database.sketch(key)
    return parse_sketch(found.text).title if found and found.text else "unscheduled nest"


def ceilings_of(database: Database, record: Record, task: TaskIdentity) -> Ceilings:
    """The ceilings of the machine that the record comes from; the target's own numbers where it was never calibrated."""
    machine = database.machine(record.trial.machine)
    if machine is not None and machine.ceilings:
        ceilings = Ceilings.from_json(machine.ceilings)
        if ceilings.threads == task.threads:
            return ceilings
    return default_ceilings(parse_target(task.target), task.threads)


def task_table(database: Database, tasks: Iterable[TaskIdentity]) -> Table:
    """All tasks with their best record."""
    rows = table("task", "program", "target", ">threads", ">trials", ">best", ">speed", ">% of ceiling", ">record")
    for task in tasks:
        records = database.records(task.key)
        trials = sum(record.trial.purpose is Purpose.SEARCH for record in records)
        program = parse(task.display)
        row = [task.key[:8], program_title(program), short_target(task.target), str(task.threads), str(trials)]
        best = rank(records)[:1]
        rows.add_row(
            *row, *(_measured(database, best[0], task, program_work(program)) if best else ["none", "", "", ""])
        )
    return rows


def _measured(database: Database, record: Record, task: TaskIdentity, work: Work) -> list[str]:
    speed = work.speed(record.seconds, ceilings_of(database, record, task))
    return [time_text(record.seconds), str(speed), f"{speed.share:.1%}", str(record.id)]


def record_table(database: Database, task: TaskIdentity, records: Sequence[Record]) -> Table:
    """Successful records, in the order given (`database.rank`: not to be ranked twice), with their sketch and config."""
    work = program_work(parse(task.display))
    rows = table(">record", ">time", ">speed", ">% of ceiling", "measured", "sketch", "config")
    for record in records:
        time, speed, share, number = _measured(database, record, task, work)
        title = sketch_title(database, record.trial.sketch)
        rows.add_row(number, time, speed, share, str(record.trial.purpose), title, config_text(record.config))
    return rows


def failure_table(records: Iterable[Record], database: Path) -> Table:
    """Failures by kind, the commonest first, each with the command that reproduces one."""
    rows = table(">count", "failure", "stage", "message", "to see it again")
    for reason in reasons(records):
        rows.add_row(
            str(len(reason.records)), str(reason.status), reason.stage, reason.message, reason.command(database)
        )
    return rows


def outcome(database: Database, result: TaskResult) -> RenderableType:
    """What a search has left: the best, how the trials ended, where the time went."""
    parts: list[RenderableType] = [best_facts(database, result.task, [result.best] if result.best else [])]
    spent = result.spent
    facts = {
        "trials": status_line(result.records),
        "time": f"{spent.wall:.1f} s: search {spent.search:.1f}, compile {spent.compile:.1f}, check {spent.check:.1f}, "
        f"measure {spent.measure:.1f} (some at the same time)",
    }
    parts.append(pairs(facts))
    if any(not record.trial.measurement.ok for record in result.records):
        parts += ["", failure_table(result.records, database.path)]
    return titled(task_title(result.task), Group(*parts))


def status_line(records: Iterable[Record]) -> str:
    """`128 trials: 120 ok, 5 invalid, 3 timeout; 4 measured again`: contenders that were confirmed are no new trials."""
    made = list(records)
    counts = Counter(str(r.trial.measurement.status) for r in made if r.trial.purpose is Purpose.SEARCH)
    again = len(made) - counts.total()
    ends = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    return f"{counts.total()} trials: {ends}{f'; {again} measured again' if again else ''}"


def task_title(task: TaskIdentity) -> str:
    """`C[1024, 1024] sum[1024] on x86:avx512, 2 threads (task 0a1b2c3d)`."""
    threads = "1 thread" if task.threads == 1 else f"{task.threads} threads"
    return f"{program_title(parse(task.display))} on {short_target(task.target)}, {threads} (task {task.key[:8]})"


def best_facts(database: Database, task: TaskIdentity, found: Sequence[Record]) -> RenderableType:
    """The best record of a task: time, speed, schedule."""
    if not found:
        return Text("no candidate has run yet")
    time, speed, share, number = _measured(database, found[0], task, program_work(parse(task.display)))
    config = f"{sketch_title(database, found[0].trial.sketch)} {config_text(found[0].config)}"
    return pairs({f"record {number}": f"{time}, {speed}, {share} of the ceiling", "config": config})


def paste_lines(task: TaskIdentity, python: str, db: Path | None) -> str:
    """Python that compiles the best known kernel of a task; without `python`, the program stands there as text."""
    options = f", threads={task.threads}"
    if task.target != parse_target("host").text:
        options += f", target={task.target!r}"
    if db is not None:
        options += f", db={str(db)!r}"
    program = python or f'tilesmith.parse("""\n{task.display.strip()}\n""")'
    return f"import tilesmith\nkernel = tilesmith.compile({program}{options})"


def pairs(values: Mapping[str, RenderableType]) -> Table:
    """Names and values, one below the other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        grid.add_row(Text(name, style="bold"), Text(value) if isinstance(value, str) else value)
    return grid


def titled(title: str, body: RenderableType) -> Group:
    """A heading over something."""
    return Group(Text(title, style="bold"), body, Text())


def table(*headings: str) -> Table:
    """A table without frames; a heading that starts with ">" stands to the right."""
    rows = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        last = heading in ("config", "message", "sketch")
        rows.add_column(
            heading.lstrip(">"), justify="right" if heading.startswith(">") else "left", overflow="fold",
            no_wrap=not last,
        )  # fmt: skip
    return rows
