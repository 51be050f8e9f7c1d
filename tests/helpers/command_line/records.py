"""A database with known records, and the command line called in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilesmith import ops
from tilesmith.measure.result import Failure, Measurement, Purpose, Status
from tilesmith.schedules.sketch import Sketch, parse_sketch
from tilesmith.targets.ceilings import Ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.text.canonical import canonical, family_key, program_key
from tilesmith.tuner.cli import main as cli
from tilesmith.tuner.records import data as records
from tilesmith.tuner.records.data import Machine, TaskIdentity, Trial, canonical_config
from tilesmith.tuner.records.database import Database

CEILINGS = Ceilings({"f32": 100e9}, ((1 << 10, 200e9), (1 << 30, 20e9)), 1)
SKETCH = parse_sketch(
    "sketch rows\nvariant inner = true\nfactor i.tile of extent(t0.a0) default=4\nstep split(t0.a0, i.tile)\n"
)
PROGRAM = ops.row_sum(24, 40)


@dataclass(frozen=True)
class Answer:
    """What one call of the command line left."""

    code: int
    out: str
    err: str


Call = Callable[..., Answer]


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command line as a function of its words."""

    def call(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["tune", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


def identity(threads: int = 1, target: str = "host") -> TaskIdentity:
    """The task of PROGRAM."""
    resolved = parse_target(target)
    form = canonical(PROGRAM)
    return TaskIdentity(
        program_key(PROGRAM), family_key(PROGRAM), print_program(form), print_program(PROGRAM),
        resolved.key, resolved.text, threads,
    )  # fmt: skip


def fill(path: Path, sketch: Sketch = SKETCH) -> TaskIdentity:
    """Records 1 (2 ms), 2 (1 ms), 3 and 4 (crash), 5 (invalid), 6 (unscheduled, 4 ms) of one task."""
    task = identity()
    with Database(path) as database:
        database.add_task(task)
        database.add_machine(Machine("m1", "a machine", CEILINGS.to_json()))
        database.add_sketches([records.StoredSketch(sketch.key, sketch.text), records.StoredSketch("", "")])
        run = database.begin_run(task.key, "{}").id
        crash = Measurement(Status.CRASH, failure=Failure("time", "signal 11\nmore"), builder="b")
        invalid = Measurement(Status.INVALID, failure=Failure("lower", "too many registers"), builder="b")
        ends = [_ok(2e-3), _ok(1e-3), crash, crash, invalid]
        for number, end in enumerate(ends, 1):
            config = canonical_config({"i.tile": number})
            database.add(Trial(task.key, sketch.key, config, "m1", run, Purpose.SEARCH, end, float(number)))
        database.add(Trial(task.key, "", "{}", "m1", run, Purpose.SEARCH, _ok(4e-3), 9.0))
        database.end_run(run, finished=True, spent=1.0)
    return task


def _ok(seconds: float) -> Measurement:
    times = (seconds * 0.9, seconds, seconds * 1.2)
    return Measurement(Status.OK, times, compile_seconds=0.05, measure_seconds=0.1, builder="b", device="d")
