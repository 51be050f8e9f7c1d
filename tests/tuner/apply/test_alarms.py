"""An alarm that rings while something compiles ends it, whatever it interrupts."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

import pytest

import tilesmith
from tilesmith.codegen.backends.cpu import builder_version
from tilesmith.common.settings import CACHE
from tilesmith.measure.machine import machine_identity, machine_key
from tilesmith.measure.result import Measurement, Purpose, Status
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.text.canonical import family_key, program_key
from tilesmith.tuner.apply.tiers import analytic_pick
from tilesmith.tuner.records.data import Machine, StoredSketch, TaskIdentity, Trial, canonical_config
from tilesmith.tuner.records.database import Database

PLACES = {
    "the rules": "tilesmith.schedules.auto.automatic",
    "steps of a sketch": "tilesmith.schedules.sketch.run_steps",
    "the draft": "tilesmith.tuner.apply.tiers.best_choices",
    "a draft that is kept": "tilesmith.tuner.apply.drafted._read",
    "a record": "tilesmith.tuner.apply.tiers.broken_conditions",
    "its prediction": "tilesmith.tuner.apply.tiers.predict",
    "code generation": "tilesmith.tuner.apply.first_built.build",
    "an artifact that is kept": "tilesmith.codegen.cache.from_bytes",
}


@pytest.mark.parametrize("place", PLACES)
def test_an_alarm_ends_compile_wherever_it_rings(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rule and no candidate is to blame for it: an unscheduled kernel came back."""

    class Late(Exception):
        pass

    def ring(number: int, frame: FrameType | None) -> None:
        raise Late("the alarm of a caller")

    def interrupted(*arguments: object, **options: object) -> None:
        signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setenv(CACHE.name, str(tmp_path / "cache"))
    program = tilesmith.ops.matmul(m=15, n=17, k=20 + list(PLACES).index(place))
    _remember(tmp_path / "a.sqlite", Task.of(program, parse_target("host"), 2))
    if "kept" in place:
        tilesmith.compile(program, db=tmp_path / "a.sqlite", threads=1)
    monkeypatch.setattr(PLACES[place], interrupted)
    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(Late, match="the alarm of a caller"):
            tilesmith.compile(program, db=tmp_path / "a.sqlite", threads=1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def _remember(path: Path, task: Task) -> None:
    """A record of what the model picks for another number of threads."""
    here, pick = machine_key(machine_identity()), analytic_pick(task)
    identity = TaskIdentity(
        program_key(task.program), family_key(task.program), task.text, print_program(task.program), task.target.key,
        task.target.text, task.threads,
    )  # fmt: skip
    with Database(path) as database:
        database.add_task(identity)
        database.add_machine(Machine(here, "a machine"))
        database.add_sketches([StoredSketch(pick.sketch.key, pick.sketch.text)])
        run = database.begin_run(identity.key, "once").id
        measured = Measurement(Status.OK, (1e-3,), builder=builder_version())
        config = canonical_config(pick.config)
        database.add(Trial(identity.key, pick.sketch.key, config, here, run, Purpose.SEARCH, measured, 1e-3))
        database.end_run(run, finished=True, spent=0.0)
