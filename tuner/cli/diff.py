"""`tune diff`: two records at a stage, two stages of a record, or two logs."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ...common.errors import ArgumentError
from ...common.near import did_you_mean
from ...common.printable import printable
from ...runtime.kernel import text_stages
from ...targets.target import parse_target
from ...tensor.text.parse import parse
from ..apply.kernel_texts import KernelTexts
from ..display import place_text, program_title
from ..records.database import Database
from ..records.log_diff import TaskDifference, compare_logs
from ..terminal import make_console
from ..units import time_text
from .named.known import known_record, record_sketch
from .parameters import DatabasePath, open_to_read
from .report import table
from .shell.completion import complete_compared

_AGREED = 0.01  # of their ratio: best times that differ by less are the same for a person


def diff(
    first: Annotated[
        str,
        typer.Argument(
            help="a record's number, as `tune show` prints it, or with a stage as in 7:loops; or a log",
            autocompletion=complete_compared,
        ),
    ],
    second: Annotated[str, typer.Argument(help="another one", autocompletion=complete_compared)],
    *,
    stage: Annotated[
        str,
        typer.Option(
            help="of records without one: program, sketch, outline, loops, llvm or asm; for GPUs ptx and sass"
        ),
    ] = "outline",
    db: DatabasePath = None,
) -> None:
    """Prints how two records differ at a stage, or one at two stages, in the form of `diff -u` (the code is made again); or how
    two logs differ: the records that only one has, and the best of each task."""
    sides = [_side(one, stage) for one in (first, second)]
    before, after = sides
    if before is None and after is None:
        _tell_logs(Path(first), Path(second))
    elif before is None or after is None:
        raise ArgumentError("a record and a log cannot be compared", expected="two numbers, or two logs")
    else:
        with open_to_read(db) as database:
            texts = [list(_lines(_stage_of(database, one))) for one in (before, after)]
        (old, new), (name, other) = texts, _titles(before, after)
        lines = difflib.unified_diff(old, new, name, other, lineterm="")
        print(printable("\n".join(lines)) or _same(before, after))


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a comparison: a record at a stage."""

    number: int
    stage: str


def _side(given: str, stage: str) -> _Side | None:
    """Reads `7` or `7:loops`; None for a log."""
    found = re.fullmatch(r"(\d+)(?::(.*))?", given)
    if found is None or Path(given).is_file():
        return None
    return _Side(int(found[1]), stage if found[2] is None else found[2])


def _titles(before: _Side, after: _Side) -> tuple[str, str]:
    if before.stage == after.stage:
        return f"record {before.number}", f"record {after.number}"
    return f"record {before.number}, {before.stage}", f"record {after.number}, {after.stage}"


def _same(before: _Side, after: _Side) -> str:
    if before.stage == after.stage:
        return f"records {before.number} and {after.number} have the same {before.stage}"
    return " and ".join(_titles(before, after)) + " are the same text"


def _lines(text: str) -> Iterator[str]:
    return (line.rstrip() for line in text.splitlines())


def _stage_of(database: Database, side: _Side) -> str:
    number, stage = side.number, side.stage
    record, task = known_record(database, number)
    target = parse_target(task.target)
    if stage not in (stages := text_stages(target)):
        raise ArgumentError(
            f"there is no stage {stage!r}", expected="one of " + ", ".join(stages), advice=did_you_mean(stage, stages)
        )
    if not record.trial.measurement.ok:
        raise ArgumentError(f"the trial of record {number} failed", expected="a record of a kernel that ran")
    head = "".join(f"# {name} = {value}\n" for name, value in record.config.items())
    texts = KernelTexts(parse(task.display), record_sketch(database, record), record.config, target, task.threads)
    return head + texts(stage)


def _tell_logs(first: Path, second: Path) -> None:
    found = compare_logs(first, second)
    console = make_console()
    if found.tasks:
        rows = table("task", "program", "for", ">gone", ">new", ">in both", ">best before", ">after", "")
        for one in found.tasks:
            rows.add_row(
                one.task.key[:8], program_title(one.task.display), place_text(one.task), str(one.gone), str(one.new),
                str(one.both), _time(one.before), _time(one.after), _said(one),
            )  # fmt: skip
        console.print(rows)
    console.print(Text(f"{len(found.tasks)} tasks differ, {found.same} are the same"))
    for bad in found.bad:
        print(printable(f"  {bad}"), file=sys.stderr)
    if found.bad:
        sys.exit(2)


def _time(seconds: float) -> str:
    return time_text(seconds) if seconds < inf else "none"


def _said(one: TaskDifference) -> str:
    gain = one.gain
    if gain is None or abs(gain - 1) < _AGREED:
        return ""
    return f"{gain:.2f} times as fast" if gain > 1 else f"{1 / gain:.2f} times as slow"
