"""Why there is no record of exactly a task: what the records that there are differ in."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from ...common.errors import NoRecordError
from ...common.settings import DATABASE
from ...schedules.task import Task
from ...targets.target import parse_target
from ...tensor.program import Program
from ...tensor.text.canonical import family_key, program_key
from ...tensor.text.parse import parse
from ..records.data import TaskIdentity
from ..records.database import Database
from ..records.sources import sources
from .moved import sizes

_NAMED = 3  # tasks


def no_record(task: Task, db: str | Path | None) -> NoRecordError:
    """The error of a strict compile; names the nearest tasks that have records, and what is different with them."""
    with ExitStack() as stack:
        opened = [stack.enter_context(Database(source.path, read_only=True)) for source in sources(db)]
        same = [one for database in opened for one in database.program_tasks(program_key(task.program))]
        family = [one for database in opened for one in database.family_tasks(family_key(task.program))]
    found = sorted((_differences(task, one) for one in (*same, *family)), key=lambda parts: (len(parts), parts))
    texts = list(dict.fromkeys("; ".join(parts) for parts in found if parts))
    more = f", and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return NoRecordError(
        "there is no record of exactly this program, target and number of threads",
        expected=f"a tuned task {task.key[:12]} in {db or DATABASE.value()}",
        found=f"records of it {' / '.join(texts[:_NAMED])}{more}"
        if texts
        else "none of this program, nor of other sizes",
        advice="ask for one of these, tune it, or compile without strict=True"
        if texts
        else "tune it first, or compile without strict=True",
    )


def _differences(task: Task, other: TaskIdentity) -> list[str]:
    """Returns what is different, as `compile` would be asked for it."""
    different = []
    program = parse(other.program)
    if other.program_key != program_key(task.program):
        different.append(f"with other sizes, {_sizes(program)} for {_sizes(task.program)}")
    if other.threads != task.threads:
        different.append(f"with threads={other.threads} for threads={task.threads}")
    if other.target_key != task.target.key:
        different.append(f"on {_where(other.target, task.target.text)}")
    if other.accuracy != task.accuracy:
        different.append(f"with accuracy={other.accuracy!r} for {task.accuracy!r}")
    if other.in_model != task.in_model:
        different.append("in a model" if other.in_model else "by itself, not in a model")
    return different


def _where(theirs: str, ours: str) -> str:
    """Targets without their sizes, unless these are all the difference."""
    short, own = theirs.partition(";")[0], ours.partition(";")[0]
    if short != own:
        return f"target {short} for {own}"
    pairs = zip(_parts(theirs), _parts(ours), strict=False)
    return f"{short} with other sizes, {', '.join(f'{a} for {b}' for a, b in pairs if a != b)}"


def _parts(target: str) -> list[str]:
    return parse_target(target).text.partition(";")[2].split(";")


def _sizes(program: Program) -> str:
    return ", ".join(sizes(program))
