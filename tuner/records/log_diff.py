"""Two logs side by side: the records that only one of them has, and how the best of each task differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from .data import Record, TaskIdentity
from .log import BadLine, LogEntry, read_log
from .ranking import rank

_Entries = dict[tuple[str, ...], LogEntry]  # by what a database has only one record of


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """A task of two logs: how many records only the first has, only the second, and both; seconds of the best of each."""

    task: TaskIdentity
    gone: int
    new: int
    both: int
    before: float
    after: float

    @property
    def is_none(self) -> bool:
        """Says whether both logs say the same of it."""
        return not self.gone and not self.new and self.before == self.after

    @property
    def gain(self) -> float | None:
        """Says how many times as fast the best of the second log is; None where one has none."""
        return self.before / self.after if max(self.before, self.after) < inf else None


@dataclass(frozen=True, slots=True)
class LogDifference:
    """Holds the tasks in which two logs differ, how many are the same, and lines that could not be read."""

    tasks: tuple[TaskDifference, ...]
    same: int
    bad: tuple[BadLine, ...]


def compare_logs(first: Path, second: Path) -> LogDifference:
    """Compares what two logs say. Errors: ArgumentError where there is no such file."""
    (before, wrong), (after, wrong_too) = read_log(first), read_log(second)
    tasks = {entry.task.key: entry.task for entry in (*before, *after)}
    old, new = _by_task(before), _by_task(after)
    found = [_of_task(task, old.get(key, {}), new.get(key, {})) for key, task in tasks.items()]
    changed = tuple(one for one in found if not one.is_none)
    return LogDifference(changed, len(found) - len(changed), (*wrong, *wrong_too))


def _by_task(entries: Sequence[LogEntry]) -> dict[str, _Entries]:
    found: dict[str, _Entries] = {}
    for entry in entries:
        found.setdefault(entry.task.key, {})[entry.key] = entry
    return found


def _of_task(task: TaskIdentity, before: _Entries, after: _Entries) -> TaskDifference:
    both = len(before.keys() & after.keys())
    return TaskDifference(task, len(before) - both, len(after) - both, both, _best(before), _best(after))


def _best(entries: _Entries) -> float:
    """Seconds of the best, as a database with these records would rank them."""
    found = rank([Record(number, entry.trial) for number, entry in enumerate(entries.values(), 1)])
    return found[0].seconds if found else inf
