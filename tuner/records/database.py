"""The tuning database: every trial ever made, good or bad. The only writer of records.

One SQLite file in write-ahead mode. A trial is one statement, committed at once: a killed process loses at most the
trial in flight. Several processes may write at the same time. Tables and versions stand in `schema.py`.

Times are compared within one machine only, and records of another builder are seeds for a search, not answers: hence
`machine` and `builder` in the queries.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from ...common.errors import DatabaseError
from ...common.given import file_place
from ...common.outside import let_through
from ...common.private import make_private_folder
from ...common.settings import DATABASE
from ...measure.result import Failure, Purpose
from .data import Machine, Record, Run, StoredSketch, TaskIdentity, Trial
from .ranking import rank
from .rows import COLUMNS, is_task, record_or_none, task_of
from .schema import connect, explain

MESSAGE_LIMIT = 4000  # characters kept of an error message

_IDENTITY = (
    "SELECT record.task, program.key, program.family, program.text, program.display, target.key, target.text, "
    "record.threads, {accuracy}, {in_model} "
    "FROM record JOIN program ON program.key = record.program JOIN target ON target.key = record.target "
)


class Database:
    """An open database; also a context manager. One object for each thread.

    Raises:
        DatabaseError: the file cannot be used as asked (see `schema.connect`), from any method.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = file_place(path, "the database")
        self._connection = connect(self.path, read_only=read_only)
        self._tasks: dict[str, TaskIdentity] = {}
        self._place = _place_of(self.path)
        with self._errors():
            columns = [name for _, name, *_ in self._connection.execute("PRAGMA table_info(record)")]
            tallies = "SELECT count(*) FROM sqlite_master WHERE name = 'tally'"
            self._tallied = bool(self._connection.execute(tallies).fetchone()[0])  # of before counts are made anew
        before = {"accuracy": "'default'", "in_model": "0"}  # there was nothing else once
        self._identity = _IDENTITY.format(**{n: f"record.{n}" if n in columns else before[n] for n in before})

    def close(self) -> None:
        """Closes the file; safe to call twice."""
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- writing

    def add_task(self, task: TaskIdentity) -> None:
        """Makes the task known; later `display` texts replace earlier ones."""
        with self._errors():
            self._connection.execute(
                "INSERT INTO program VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET display = excluded.display",
                (task.program_key, task.family_key, task.program, task.display),
            )
            self._connection.execute("INSERT OR IGNORE INTO target VALUES (?, ?)", (task.target_key, task.target))
        self._tasks[task.key] = task

    def add_sketches(self, sketches: Iterable[StoredSketch]) -> None:
        """Makes sketches known. Domains are not part of a key: the newest text, with the newest domains, stays."""
        with self._errors():
            self._connection.executemany(
                "INSERT INTO sketch VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET text = excluded.text "
                "WHERE text <> excluded.text",
                [(s.key, s.text) for s in sketches],
            )

    def add_machine(self, machine: Machine) -> None:
        """Makes a machine known; a new calibration replaces the old one."""
        with self._errors():
            self._connection.execute(
                "INSERT INTO machine VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET ceilings = excluded.ceilings "
                "WHERE excluded.ceilings <> ''",
                (machine.key, machine.identity, machine.ceilings),
            )

    def add(self, trial: Trial) -> None:
        """Writes one trial, in one statement, committed on return. Its task must be known (`add_task`).

        A second trial of the same candidate (task, sketch, config, builder, machine, purpose) replaces the first.
        """
        task, m = self._tasks[trial.task], trial.measurement
        failure = m.failure or Failure("", "")
        seconds = m.seconds if m.ok and m.times else None
        row = (trial.task, trial.sketch, trial.config, m.builder, trial.machine, trial.run, str(trial.purpose),
               str(m.status), json.dumps(m.times), seconds, int(m.abandoned), failure.stage,
               failure.message[:MESSAGE_LIMIT], m.compile_seconds, m.check_seconds, m.measure_seconds, m.device,
               trial.created, trial.elapsed, task.program_key, task.target_key, task.threads,
               task.accuracy, int(task.in_model))  # fmt: skip
        names = f"{COLUMNS}, program, target, threads, accuracy, in_model"
        changes = ", ".join(f"{n} = excluded.{n}" for n in COLUMNS.split(", ")[5:])
        lost = None if _place_of(self.path) == self._place else self._rescued()
        with self._errors():
            self._connection.execute(
                f"INSERT INTO record ({names}) VALUES ({', '.join('?' * len(row))}) "
                f"ON CONFLICT (task, sketch, config, builder, machine, purpose) DO UPDATE SET {changes}",
                row,
            )
        if lost is not None:
            raise lost

    def _rescued(self) -> DatabaseError:
        """Everything, in a new file, which is used from now on: the old one is deleted, or another one has its name."""
        folder = self.path.parent if self.path.parent.is_dir() else Path(tempfile.gettempdir())
        old, rescued = self.path, folder / f"{self.path.stem}.rescued-{uuid.uuid4().hex[:8]}{self.path.suffix}"
        with self._errors():
            new = sqlite3.connect(rescued, isolation_level=None)
            self._connection.backup(new)
            self._connection.close()
        self._connection, self.path, self._place = new, rescued, _place_of(rescued)
        return DatabaseError(
            "the database was deleted or replaced while it was in use",
            found=str(old),
            advice=f"all that it held, and what was measured since, is in {rescued}: move it back, or use it by --db",
        )

    # ---- runs

    def begin_run(self, task: str, request: str) -> Run:
        """The run that this request continues (cut short, its process gone), or a new one.

        One transaction: of two processes with the same request, one takes the cut run over, the other begins anew.
        """
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                run = self._cut_run(task, request) or Run(uuid.uuid4().hex[:16], task, request, time.time())
                self._connection.execute(
                    "INSERT INTO run VALUES (?, ?, ?, ?, 'running', ?, ?) "
                    "ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, state = 'running', spent = excluded.spent",
                    (run.id, task, request, _owner(), run.started, run.spent),
                )
            finally:
                self._connection.execute("COMMIT")
        return run

    def end_run(self, run: str, *, finished: bool, spent: float) -> None:
        """Marks a run as finished, or as interrupted: the same request continues it."""
        with self._errors():
            self._connection.execute(
                "UPDATE run SET state = ?, spent = ? WHERE id = ?",
                ("finished" if finished else "interrupted", spent, run),
            )

    def add_round(self, run: str, number: int, figures: str) -> None:
        """Keeps how good a run's model was in one round (JSON); a second one of the same number replaces the first."""
        with self._errors():
            self._connection.execute("INSERT OR REPLACE INTO round VALUES (?, ?, ?)", (run, number, figures))

    def add_sitting(self, run: str, facts: Mapping[str, object]) -> None:
        """Tells whoever watches what a run that begins now, or goes on, may spend and who works on it."""
        with self._errors():
            self._connection.execute(
                "INSERT OR REPLACE INTO sitting VALUES (?, ?, ?)", (run, time.time(), json.dumps(dict(facts)))
            )

    def add_foreign_run(self, run: str, task: str, started: float) -> None:
        """Makes a run known of which only records came here; it cannot be continued."""
        with self._errors():
            self._connection.execute(
                "INSERT OR IGNORE INTO run VALUES (?, ?, '', '', 'finished', ?, 0)", (run, task, started)
            )

    def _cut_run(self, task: str, request: str) -> Run | None:
        rows = self._connection.execute(
            "SELECT id, owner, state, started, spent FROM run WHERE task = ? AND request = ? AND state <> 'finished' "
            "ORDER BY started DESC",
            (task, request),
        ).fetchall()
        for identifier, owner, state, started, spent in rows:
            if state == "interrupted" or not is_alive(owner):
                count, elapsed = self._connection.execute(
                    "SELECT count(*), max(elapsed) FROM record WHERE run = ? AND purpose = 'search'", (identifier,)
                ).fetchone()
                return Run(identifier, task, request, started, max(spent, elapsed or 0.0), state, int(count))
        return None

    # ---- reading

    def records(
        self, task: str, *, machine: str | None = None, builder: str | None = None, purpose: Purpose | None = None
    ) -> list[Record]:
        """All records of a task in the order in which they were made, if wanted of one machine, builder or purpose."""
        wanted = {"task": task, "machine": machine, "builder": builder, "purpose": purpose and str(purpose)}
        return self._select({name: value for name, value in wanted.items() if value is not None})

    def run_records(self, run: str) -> list[Record]:
        """All records of a run in the order in which they were made."""
        return self._select({"run": run})

    def record(self, identifier: int) -> Record | None:
        """The record of this number."""
        found = self._select({"id": identifier}) if 0 < identifier < 1 << 63 else []
        return found[0] if found else None

    def candidate(self, task: str, sketch: str, config: str, *, machine: str, builder: str) -> Record | None:
        """The search trial of one candidate on a machine by a builder; it is looked up in an index."""
        names = {"task": task, "sketch": sketch, "config": config, "builder": builder, "machine": machine}
        found = self._select({**names, "purpose": str(Purpose.SEARCH)})
        return found[0] if found else None

    def best(
        self, task: str, count: int = 1, *, machine: str | None = None, builder: str | None = None
    ) -> list[Record]:
        """The best candidates of a task, best first, one record for each; see `rank`."""
        return rank(self._leading(task, count, machine, builder))[:count]

    def _leading(self, task: str, count: int, machine: str | None, builder: str | None) -> list[Record]:
        """Records of which `rank` makes the same first ones as of all: those measured again, and the fastest others."""
        wanted = {"task": task, "machine": machine, "builder": builder}
        given = {name: value for name, value in wanted.items() if value is not None}
        confirmed = self._select({**given, "purpose": str(Purpose.CONFIRM)})
        confirmed += self._select({**given, "purpose": str(Purpose.MODEL)})
        places = dict.fromkeys((record.trial.sketch, record.trial.config) for record in confirmed)
        found = list(confirmed)
        for sketch, config in places:
            found += self._select({**given, "sketch": sketch, "config": config, "purpose": str(Purpose.SEARCH)})
        others: dict[tuple[str, str], Record] = {}
        for record in self._fastest({**given, "purpose": str(Purpose.SEARCH)}):
            place = record.trial.sketch, record.trial.config
            if place not in places and others.setdefault(place, record) is record and len(others) == count:
                break
        return found + list(others.values())

    def _fastest(self, wanted: dict[str, str]) -> Iterator[Record]:
        """Records that ran to their end, the fastest first, as far as they are asked for."""
        where = " AND ".join(f"{name} = ?" for name in wanted)
        with self._errors():
            rows = self._connection.execute(
                f"SELECT id, {COLUMNS} FROM record WHERE {where} AND seconds > 0 AND abandoned = 0 ORDER BY seconds, id",
                tuple(wanted.values()),
            )
            for row in rows:
                record = record_or_none(row)
                if record is not None and record.trial.measurement.ok:
                    yield record
            rows.close()

    def searched(self, task: str) -> int:
        """Says how many trials searches have made of a task."""
        with self._errors():
            if self._tallied:
                row = self._connection.execute("SELECT searched FROM tally WHERE task = ?", (task,)).fetchone()
                return int(row[0]) if row else 0
            count = "SELECT count(*) FROM record WHERE task = ? AND purpose = 'search'"
            return int(self._connection.execute(count, (task,)).fetchone()[0])

    def program_tasks(self, program_key: str) -> list[TaskIdentity]:
        """All tasks with records of a program: any target, any number of threads."""
        return self._identities("WHERE record.program = ? GROUP BY record.task", (program_key,))

    def family_tasks(self, family_key: str) -> list[TaskIdentity]:
        """All tasks with records whose program differs from this one at most in sizes."""
        return self._identities("WHERE program.family = ? GROUP BY record.task", (family_key,))

    def tasks(self) -> list[TaskIdentity]:
        """All tasks with records, the one worked on last first."""
        if self._tallied:
            return self._identities("WHERE record.id IN (SELECT last FROM tally) ORDER BY record.id DESC", ())
        return self._identities("GROUP BY record.task ORDER BY max(record.id) DESC", ())

    def task(self, key: str) -> TaskIdentity | None:
        """The task of this key, if it has records."""
        found = self._identities("WHERE record.task = ? LIMIT 1", (key,))
        return found[0] if found else None

    def sketch(self, key: str) -> StoredSketch | None:
        """The sketch of this key."""
        with self._errors():
            row = self._connection.execute("SELECT key, text FROM sketch WHERE key = ?", (key,)).fetchone()
        return StoredSketch(*row) if row and isinstance(row[1], str) else None

    def machine(self, key: str) -> Machine | None:
        """The machine of this key."""
        with self._errors():
            row = self._connection.execute("SELECT * FROM machine WHERE key = ?", (key,)).fetchone()
        return Machine(*row) if row and all(isinstance(text, str) for text in row) else None

    def runs(self, task: str) -> list[Run]:
        """All runs of a task, the last one first."""
        with self._errors():
            rows = self._connection.execute(
                "SELECT id, task, request, started, spent, state, "
                "(SELECT count(*) FROM record WHERE record.run = run.id AND purpose = 'search') "
                "FROM run WHERE task = ? ORDER BY started DESC",
                (task,),
            ).fetchall()
        return [Run(*row) for row in rows]

    def rounds(self, run: str) -> list[str]:
        """The figures of all rounds of a run, as JSON, in order."""
        with self._errors():
            rows = self._connection.execute(
                "SELECT figures FROM round WHERE run = ? ORDER BY number", (run,)
            ).fetchall()
        return [str(figures) for (figures,) in rows]

    def count(self) -> int:
        """Says how many records there are."""
        with self._errors():
            return int(self._connection.execute("SELECT count(*) FROM record").fetchone()[0])

    def _select(self, wanted: dict[str, str | int]) -> list[Record]:
        where = " AND ".join(f"{name} = ?" for name in wanted)
        with self._errors():
            rows = self._connection.execute(
                f"SELECT id, {COLUMNS} FROM record WHERE {where} ORDER BY created, id", tuple(wanted.values())
            ).fetchall()
        return [record for record in map(record_or_none, rows) if record is not None]

    def _identities(self, rest: str, values: tuple[str, ...]) -> list[TaskIdentity]:
        with self._errors():
            rows = self._connection.execute(self._identity + rest, values).fetchall()
        return [task_of(row) for row in rows if is_task(row)]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, self.path) from error


def _place_of(path: Path) -> tuple[int, int] | None:
    """Returns what tells a file from another one of its name; None where there is none."""
    try:
        facts = path.stat()
    except OSError as error:
        let_through(error)
        return None
    return facts.st_dev, facts.st_ino


def open_database(place: str | Path | None = None) -> Database:
    """The database at this place, made if it is missing; by default the settings' one, whose folder is made as well."""
    if place is not None:
        return Database(place)
    path = DATABASE.value()
    if path == DATABASE.default():
        try:
            make_private_folder(path.parent)
        except OSError as error:
            let_through(error)
            raise DatabaseError(
                "the folder of the database cannot be made",
                found=f"{path.parent}: {error.strerror}",
                advice=f"give another place by --db or {DATABASE.name}",
            ) from error
    return Database(path)


def _owner() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"


def is_alive(owner: str, *, own: bool = False) -> bool:
    """Says whether the process may still be at work; one on another host cannot be asked and counts as alive.

    `own`: what is said of this very process.
    """
    host, _, process = owner.rpartition("/")
    if host != socket.gethostname() or not process.isdecimal():
        return True
    if int(process) == os.getpid():
        return own  # of this very process an earlier run may have ended without saying so
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
