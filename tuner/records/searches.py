"""Searches as their database tells them: how far each kernel is, who works on it, and how it ended. It is only read.

A search is one call of `tune`: the runs of its kernels have one request and one owner. What it may spend, its workers and the
names of its kernels are told when it begins (`Database.add_sitting`); of runs of earlier versions the request tells the budget.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from .database import Database, is_alive
from .schema import connect, explain

RUNNING, KILLED = "running", "killed"
_RUNS = "SELECT id, task, request, owner, state, started, spent FROM run WHERE owner <> '' ORDER BY started DESC, id LIMIT 4000"


@dataclass(frozen=True, slots=True)
class KernelSearch:
    """One run. `best`: seconds of the best that is known on its machine, from earlier runs as well; `facts`: what was told when
    it began."""

    run: str
    task: str
    trials: int
    failures: Mapping[str, int]
    best: float
    found: float  # seconds of the best of this run
    first: float  # seconds of its first trial that ran
    began: float  # seconds since 1970 when this sitting began
    spent: float  # seconds of work before this sitting
    last: float  # seconds of work until its last trial
    machine: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchSeen:
    """A search. `state`: running, killed (its process is gone), interrupted or finished."""

    kernels: tuple[KernelSearch, ...]
    request: Mapping[str, Any]
    state: str
    owner: str

    @property
    def trials(self) -> int:
        """Says how many trials all kernels had."""
        return sum(kernel.trials for kernel in self.kernels)

    @property
    def failures(self) -> dict[str, int]:
        """Failures of all kernels by kind, most first."""
        found: dict[str, int] = {}
        for kernel in self.kernels:
            for kind, count in kernel.failures.items():
                found[kind] = found.get(kind, 0) + count
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def told(self, name: str) -> Any:
        """Returns what was told when it began; None where nothing was."""
        return self.kernels[0].facts.get(name)

    def spent(self, now: float) -> float:
        """Seconds of work so far."""
        if self.state == RUNNING:
            return max(kernel.spent + max(0.0, now - kernel.began) for kernel in self.kernels)
        return max(max(kernel.spent, kernel.last) for kernel in self.kernels)


def latest_searches(path: Path) -> list[SearchSeen]:
    """All searches that run now, the one that began last first; where none does, the last that ended. Errors: DatabaseError."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            groups: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
            for row in connection.execute(_RUNS):
                groups.setdefault((row[2], row[3]), []).append(row)
            seen = [(key, rows, _state(rows)) for key, rows in groups.items()]
            wanted = [one for one in seen if one[2] == RUNNING] or seen[:1]
            return [_seen(connection, *one) for one in wanted]
    except sqlite3.Error as error:
        raise explain(error, path) from error


def _state(rows: Sequence[tuple[Any, ...]]) -> str:
    states = {str(row[4]) for row in rows}
    if RUNNING in states:
        return RUNNING if is_alive(str(rows[0][3]), own=True) else KILLED
    return "interrupted" if "interrupted" in states else "finished"


def _seen(
    connection: sqlite3.Connection, key: tuple[str, str], rows: Sequence[tuple[Any, ...]], state: str
) -> SearchSeen:
    request = _object(key[0])
    newest = {row[1]: row for row in reversed(rows)}  # of a task that was searched again so, the last run
    order = {task: number for number, task in enumerate(request.get("together") or ())}
    told = _sittings(connection, [row[0] for row in newest.values()])
    kernels = [_kernel(connection, row, told.get(row[0], {})) for row in newest.values()]
    kernels.sort(key=lambda kernel: kernel.facts.get("number", order.get(kernel.task, 0)))
    return SearchSeen(tuple(kernels), request, state, key[1])


def _sittings(connection: sqlite3.Connection, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns what was told of runs; nothing in a database of before."""
    if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'sitting'").fetchone()[0]:
        return {}
    found = {}
    for run in runs:
        row = connection.execute("SELECT began, facts FROM sitting WHERE run = ?", (run,)).fetchone()
        if row is not None:
            found[run] = {**_object(row[1]), "began": row[0]}
    return found


def _kernel(connection: sqlite3.Connection, row: tuple[Any, ...], facts: Mapping[str, Any]) -> KernelSearch:
    run, task, _, _, _, started, spent = row
    counts = connection.execute(
        "SELECT status, count(*) FROM record WHERE run = ? AND purpose = 'search' GROUP BY status", (run,)
    ).fetchall()
    found, last, machine = connection.execute(
        "SELECT min(seconds), max(elapsed), max(machine) FROM record WHERE run = ?", (run,)
    ).fetchone()
    first = connection.execute(
        "SELECT seconds FROM record WHERE run = ? AND seconds IS NOT NULL ORDER BY created, id LIMIT 1", (run,)
    ).fetchone()
    place = str(facts.get("machine") or machine or "")
    known = connection.execute(
        "SELECT seconds FROM record WHERE task = ? AND seconds > 0 AND machine = ? AND abandoned = 0 ORDER BY seconds LIMIT 1",
        (task, place),
    ).fetchone()
    return KernelSearch(
        run, task, sum(count for _, count in counts), {str(status): count for status, count in counts if status != "ok"},
        known[0] if known else inf, found or inf, first[0] if first else inf, facts.get("began", started), spent or 0.0,
        last or 0.0, place, facts,
    )  # fmt: skip


def search_ceilings(database: Database, search: SearchSeen) -> str:
    """The ceilings of the machine of a search, as JSON; "" where nothing is known of it."""
    for kernel in search.kernels:
        machine = database.machine(kernel.machine)
        if machine is not None and machine.ceilings:
            return machine.ceilings
    return ""


def _object(text: object) -> dict[str, Any]:
    try:
        found = json.loads(str(text))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
