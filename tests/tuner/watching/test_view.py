"""The terminal of a search, and `tune watch` in another one: they show the same."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from helpers.command_line.records import CEILINGS, PROGRAM, identity
from tilesmith.measure.result import Failure, Measurement, Purpose, Status
from tilesmith.tuner.budget import Budget
from tilesmith.tuner.cli.watch import view
from tilesmith.tuner.records.data import Machine, StoredSketch, Trial
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.records.searches import latest_searches
from tilesmith.tuner.roofline import program_work
from tilesmith.tuner.watching.model_progress import ModelProgress
from tilesmith.tuner.watching.progress import Live
from tilesmith.tuner.watching.watch import NOTHING, Sitting, Whole

TASKS = (identity(1), identity(2))
WORKERS = "2 builders, 1 timer"
CRASH = Measurement(Status.CRASH, failure=Failure("time", "signal 11"), builder="b")
ENDS = ((0, 2e-3), (1, 1e-3), (0, 1e-3), (1, None), (1, None), (0, 3e-3))  # of trials: which kernel, seconds


def ended(seconds: float | None) -> Measurement:
    return CRASH if seconds is None else Measurement(Status.OK, (seconds,), builder="b")


def shown(seen: RenderableType, width: int = 120) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(seen)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def followed(console: Console) -> ModelProgress:
    """The progress of a model, of whose kernels some trials came home."""
    progress = ModelProgress(Whole("a net", (3.0, 1.0), ("layer0", "layer1")), console)
    watchers = progress.watchers()
    for watcher, task in zip(watchers, TASKS, strict=True):
        watcher.begin(Sitting("k", program_work(PROGRAM), CEILINGS, Budget(9), NOTHING, task.key, WORKERS))
    for number, seconds in ENDS:
        watchers[number].trial(ended(seconds))
    return progress


def stored(path: Path) -> None:
    """The same in a database."""
    with Database(path) as database:
        database.add_machine(Machine("m", "a machine", CEILINGS.to_json()))
        database.add_sketches([StoredSketch("", "")])
        runs = []
        for number, (task, count) in enumerate(zip(TASKS, (3.0, 1.0), strict=True)):
            database.add_task(task)
            runs.append(database.begin_run(task.key, '{"trials": 9}').id)
            told = {"model": "a net", "place": f"layer{number}", "count": count, "number": number, "machine": "m"}
            database.add_sitting(runs[-1], {**told, "trials": 9, "seconds": None, "workers": WORKERS})
        for number, (kernel, seconds) in enumerate(ENDS):
            trial = Trial(
                TASKS[kernel].key,
                "",
                f'{{"n":{number}}}',
                "m",
                runs[kernel],
                Purpose.SEARCH,
                ended(seconds),
                time.time(),
                1.0,
            )
            database.add(trial)


def test_the_terminal_shows_what_watch_shows(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=120)
    progress, path = followed(console), tmp_path / "a.sqlite"
    stored(path)
    watched = shown(view(path, latest_searches(path)))
    own = shown(progress.view().below(40))
    assert len(own) > 4 and all(any(line in there for there in watched) for line in own), (own, watched)
    assert any(WORKERS in line for line in own) and any("2 crash" in line for line in own)
    told = progress.line().partition(", 2 failed")[0]
    assert told.startswith("6/9 trials, 4 ms now (7 ms at first)") and any(told in line for line in watched)


@pytest.mark.parametrize(("height", "lines"), [(40, 6), (8, 6), (7, 2), (3, 0)])
def test_what_a_low_terminal_has_no_room_for_is_left_out(height: int, lines: int) -> None:
    below = followed(Console(file=io.StringIO(), width=120)).view().below(height - 2)
    assert len(shown(below)) == lines


def test_a_search_of_one_kernel_shows_who_works_and_what_fails() -> None:
    file = io.StringIO()
    live = Live(Console(file=file, width=120, height=30, force_terminal=True, force_interactive=True))
    live.begin(Sitting("k", program_work(PROGRAM), CEILINGS, Budget(4), NOTHING, TASKS[0].key, WORKERS))
    live.trial(CRASH)
    live.trial(ended(1e-3))
    live.end()
    assert WORKERS in file.getvalue() and "1 crash" in file.getvalue()
    assert WORKERS not in file.getvalue().splitlines()[-1]
