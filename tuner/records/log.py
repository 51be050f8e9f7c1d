"""Logs: records as JSON lines, to be kept in git, sent around, merged.

Each line is one record with everything that it needs: the program, the target and the sketch as text, the config by
name. Lines are sorted, and the same records make the same file, so that two logs can be compared line by line. Keys are
no part of a line: they are made anew from the texts at each import, so that a log outlives a change of their recipe.

What is read is data. A line that cannot be understood is reported and skipped; nothing in it is ever run.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...common.errors import ArgumentError, TilesmithError
from ...measure.machine import machine_key
from ...measure.result import Failure, Measurement, Status
from ...schedules.sketch import parse_sketch
from ...targets.target import parse_target
from ...tensor.accuracy import Accuracy
from ...tensor.printing import print_program
from ...tensor.text.canonical import canonical, family_key, program_key
from ...tensor.text.parse import parse
from .claims import believed
from .data import Machine, Record, StoredSketch, TaskIdentity, Trial, canonical_config
from .database import Database

if TYPE_CHECKING:
    from .log_line import Line


LONGEST = 1 << 24  # bytes of a line


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line of a log after it was parsed and checked."""

    task: TaskIdentity
    sketch: StoredSketch
    machine: Machine
    trial: Trial

    @property
    def key(self) -> tuple[str, ...]:
        """Returns what a database has only one record of."""
        t = self.trial
        return (t.task, t.sketch, t.config, t.measurement.builder, t.machine, str(t.purpose))


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was skipped, and why."""

    path: Path
    number: int  # from 1
    problem: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.problem}"


@dataclass(frozen=True, slots=True)
class LogReport:
    """Holds what came of reading logs: records that were new, records that were there already, lines that were skipped."""

    new: int
    known: int
    bad: tuple[BadLine, ...]


def export_log(
    database: Database, path: Path, tasks: Iterable[TaskIdentity] | None = None, *, best: int | None = None
) -> int:
    """Writes records of the tasks (default: of the database) and returns their number. An old file is replaced.

    `best`: only those of so many best candidates of each task, which is what `compile` asks a log for.
    """
    entries = []
    for task in database.tasks() if tasks is None else tasks:
        records = database.records(task.key) if best is None else database.best(task.key, best)
        for record in records:
            sketch, machine = database.sketch(record.trial.sketch), database.machine(record.trial.machine)
            if sketch is not None and machine is not None:
                entries.append(LogEntry(task, sketch, machine, record.trial))
    write_entries(path, entries)
    return len(entries)


def import_log(path: Path, database: Database) -> LogReport:
    """Adds what the database lacks. Doing it twice changes nothing; of two records of one candidate the newer stays."""
    entries, bad = read_log(path)
    known: dict[str, dict[tuple[str, ...], float]] = {}
    new = 0
    for entry in entries:
        if entry.task.key not in known:
            known[entry.task.key] = _known(database, entry)
        there = known[entry.task.key]
        if there.get(entry.key, -1.0) >= entry.trial.created:
            continue
        if database.sketch(entry.sketch.key) is None:  # the domains of one that is known are this version's
            database.add_sketches([entry.sketch])
        if database.machine(entry.machine.key) is None:  # nor does a log tell what a machine that is known can do
            database.add_machine(entry.machine)
        database.add_foreign_run(entry.trial.run, entry.task.key, entry.trial.created)
        database.add(entry.trial)
        there[entry.key] = entry.trial.created
        new += 1
    return LogReport(new, len(entries) - new, tuple(bad))


def merge_logs(paths: Sequence[Path], out: Path) -> LogReport:
    """Writes one log of all records of several; of two records of one candidate the newer stays."""
    newest: dict[tuple[str, ...], LogEntry] = {}
    total, bad = 0, []
    for path in paths:
        entries, wrong = read_log(path)
        bad += wrong
        total += len(entries)
        for entry in entries:
            if entry.key not in newest or newest[entry.key].trial.created < entry.trial.created:
                newest[entry.key] = entry
    write_entries(out, newest.values())
    return LogReport(len(newest), total - len(newest), tuple(bad))


def check_log(path: Path) -> LogReport:
    """Reads a log and changes nothing: how many records it has, how many of them twice, which lines are wrong."""
    entries, bad = read_log(path)
    different = len({entry.key for entry in entries})
    return LogReport(different, len(entries) - different, tuple(bad))


def read_log(path: Path) -> tuple[list[LogEntry], list[BadLine]]:
    """All records of a log, and the lines that are none. Raises ArgumentError if there is no such file."""
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise ArgumentError("the log cannot be read", found=f"{path}: {error.strerror}") from error
    entries, bad = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entries.append(_entry(line))
        except Exception as error:  # whatever a line leads to, it costs that line alone
            torn = number == len(lines) and not line.rstrip().endswith(b"}")
            problem = "the last line is torn: it was not written to its end" if torn else _problem(error)
            bad.append(BadLine(path, number, problem))
    return entries, bad


def _problem(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc']) or 'line'}: {first['msg']}"
    problem = str(error).partition("\n")[0]
    return problem if isinstance(error, ValueError | TilesmithError) else f"{type(error).__name__}: {problem}"


def _entry(text: bytes) -> LogEntry:
    from .log_line import Line

    if len(text) > LONGEST:
        raise ValueError(f"the line has {len(text)} bytes, more than {LONGEST}")
    line = Line.model_validate_json(text)
    task = _task(line.program, line.target, line.threads, line.accuracy, line.in_model)
    sketch = StoredSketch(_sketch_key(line.sketch), line.sketch)
    machine = Machine(machine_key(line.machine.identity), line.machine.identity, line.machine.ceilings)
    if line.status is Status.OK and not line.times:
        raise ValueError("status ok without times")
    measurement = Measurement(
        status=line.status,
        times=line.times,
        failure=Failure(line.failure.stage, line.failure.message) if line.failure else None,
        abandoned=line.abandoned,
        compile_seconds=line.compile_seconds,
        check_seconds=line.check_seconds,
        measure_seconds=line.measure_seconds,
        builder=line.builder,
        device=line.device,
    )
    trial = Trial(
        task=task.key,
        sketch=sketch.key,
        config=canonical_config(line.config),
        machine=machine.key,
        run=line.run,
        purpose=line.purpose,
        measurement=measurement,
        created=line.created,
        elapsed=line.elapsed,
    )
    trial = replace(trial, measurement=believed(measurement, task, machine))
    return LogEntry(task, sketch, machine, trial)


@lru_cache(maxsize=256)
def _task(program: str, target: str, threads: int, accuracy: Accuracy, in_model: bool) -> TaskIdentity:
    parsed, resolved = parse(program), parse_target(target)
    whole = canonical(parsed)
    return TaskIdentity(
        program_key=program_key(whole),
        family_key=family_key(whole),
        program=print_program(whole),
        display=print_program(parsed),
        target_key=resolved.key,
        target=resolved.text,
        threads=threads,
        accuracy=accuracy,
        in_model=in_model,
    )


@lru_cache(maxsize=1024)
def _sketch_key(text: str) -> str:
    return parse_sketch(text).key if text else ""


def _known(database: Database, entry: LogEntry) -> dict[tuple[str, ...], float]:
    """Candidate -> when its record was made, for all records of the entry's task; the task is known from now on."""
    database.add_task(entry.task)
    records: Sequence[Record] = database.records(entry.task.key)
    entries = (LogEntry(entry.task, entry.sketch, entry.machine, record.trial) for record in records)
    return {e.key: e.trial.created for e in entries}


def _line(entry: LogEntry) -> Line:
    from .log_line import FailureLine, Line, MachineLine

    trial, m = entry.trial, entry.trial.measurement
    return Line(
        program=entry.task.display,
        target=entry.task.target,
        threads=entry.task.threads,
        accuracy=entry.task.accuracy,
        in_model=entry.task.in_model,
        sketch=entry.sketch.text,
        config=json.loads(trial.config),
        purpose=trial.purpose,
        status=m.status,
        times=m.times,
        failure=FailureLine(stage=m.failure.stage, message=m.failure.message) if m.failure else None,
        abandoned=m.abandoned,
        builder=m.builder,
        machine=MachineLine(identity=entry.machine.identity, ceilings=entry.machine.ceilings),
        device=m.device,
        compile_seconds=m.compile_seconds,
        check_seconds=m.check_seconds,
        measure_seconds=m.measure_seconds,
        run=trial.run,
        created=trial.created,
        elapsed=trial.elapsed,
    )


def write_entries(path: Path, entries: Iterable[LogEntry]) -> None:
    """A file is written beside and renamed: a log is never half there. A link stays one, a pipe or a device is written to."""
    lines = [_line(entry).model_dump_json(exclude_defaults=True) for entry in sorted(entries, key=_order)]
    text = "".join(f'{{"format":1,{line[1:]}\n' for line in lines)
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8") as file:
                file.write(text)
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise ArgumentError("the log cannot be written", found=f"{path}: {error.strerror or error}") from error


def _replace(path: Path, text: str) -> None:
    """Writes a file that is whole whenever it is looked at."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        beside.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _order(entry: LogEntry) -> tuple[object, ...]:
    """Tasks together, their records in the order of measurement: new ones are appended, and a diff shows only them."""
    return (
        entry.task.program,
        entry.task.target,
        entry.task.threads,
        entry.task.accuracy,
        entry.task.in_model,
        entry.trial.created,
        entry.key,
    )
