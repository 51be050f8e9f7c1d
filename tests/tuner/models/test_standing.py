"""How it stands with the kernels of a model: what the whole would run at, and how much of that is open."""

from __future__ import annotations

import io
from math import inf

import pytest
from rich.console import Console

import tilesmith as ts
from tilesmith.measure.result import Failure, Measurement, Status
from tilesmith.targets.ceilings import Ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tuner.budget import Budget
from tilesmith.tuner.effort import Sharing
from tilesmith.tuner.models.tasks import Standing, model_tasks
from tilesmith.tuner.roofline import Work
from tilesmith.tuner.watching.model_progress import ModelProgress
from tilesmith.tuner.watching.watch import Before, RaceWatcher, Sitting, Watcher, Whole

WORK = Work((("f32", 400_000_000),), 1000)  # 1 ms at the ceiling
CEILINGS = Ceilings({"f32": 400e9}, ((1000, 1e12),), 2)
CRASH = Measurement(Status.CRASH, failure=Failure("time", "signal 11"))


def ok(milliseconds: float) -> Measurement:
    return Measurement(Status.OK, (milliseconds * 1e-3,))


def test_the_time_of_a_model_is_that_of_its_kernels_as_often_as_they_are_called() -> None:
    standing = Standing([3, 1], [1.0, 2.0], [2.0, inf])
    assert not standing.whole and standing.known == 1 and standing.seconds == 6
    standing.best[1] = 2.0
    assert standing.whole and standing.seconds == 8
    assert [standing.share(n) for n in (0, 1)] == [0.75, 0.25]
    assert (
        standing.open_of(0) == pytest.approx(3 / 8)
        and standing.open_of(1) == 0
        and standing.open == pytest.approx(3 / 8)
    )


def test_of_what_nothing_is_known_nothing_is_open() -> None:
    standing = Standing.of([1, 2])
    assert (standing.seconds, standing.open, standing.share(0), standing.whole) == (0, 0, 0, False)


def progress(console: Console, before: Before) -> tuple[ModelProgress, list[Watcher]]:
    shown = ModelProgress(Whole("net", (2, 1), ("layer1", "layer2")), console)
    watchers = shown.watchers()
    for watcher in watchers:
        watcher.begin(Sitting("kernel", WORK, CEILINGS, Budget(8), before))
    return shown, watchers


def test_a_line_says_the_layer_what_the_model_runs_at_and_what_is_open() -> None:
    written = io.StringIO()
    shown, (first, second) = progress(Console(file=written, width=200), Before())
    first.trial(ok(4))
    assert shown.line().startswith("1/8 trials, 1 of 2 kernels measured, 0 failed") and shown.line().endswith(
        "; layer1"
    )
    assert not written.getvalue()
    second.trial(ok(2))
    assert "2/8 trials, 10 ms now (10 ms at first), 70% of it open, 0 failed" in shown.line()
    assert shown.line().endswith("; layer2") and written.getvalue().count("\n") == 1
    second.trial(ok(1.99))
    second.trial(CRASH)
    assert written.getvalue().count("\n") == 1, "a hundredth is not worth a line"
    first.trial(ok(2))
    assert "5/8 trials, 5.99 ms now (10 ms at first), 50% of it open, 1 failed" in written.getvalue().splitlines()[-1]
    assert isinstance(first, RaceWatcher)
    for doing, percent in (("building", 0), ("building", 50), ("timing", 0)):
        first.racing(doing, percent)
    assert written.getvalue().splitlines()[2:] == ["net: building", "net: timing"]
    first.end()
    assert written.getvalue().count("\n") == 4
    second.end()
    assert written.getvalue().count("\n") == 5 and not written.getvalue().rstrip().endswith("layer1")


def test_what_was_known_before_counts() -> None:
    shown, _ = progress(Console(file=io.StringIO(), width=200), Before(trials=3, failures={"crash": 1}, known=0.004))
    assert shown.line().startswith("6/8 trials, 12 ms now (12 ms at first), 75% of it open, 2 failed")


def test_on_a_terminal_one_line_changes_in_place_and_fits() -> None:
    written = io.StringIO()
    console = Console(file=written, width=60, force_terminal=True)
    shown, (first, second) = progress(console, Before())
    first.trial(ok(4))
    second.trial(ok(4))
    assert len(shown._shown()) <= 57
    first.end()
    second.end()
    assert "12 ms now" in written.getvalue()


def test_tasks_say_which_layers_call_them() -> None:
    tasks = model_tasks(ts.ops.matmul(m=24, n=24, k=24), parse_target("host"), 1, "default")
    assert [(one.count, one.place) for one in tasks] == [(1, "matmul")]


def test_a_small_budget_reaches_every_task() -> None:
    sharing = Sharing(slice=16)
    assert sharing.within(2000, 20).slice == 16
    assert sharing.within(120, 26).slice == 2
    assert sharing.within(10, 26).slice == 1
    assert sharing.within(None, 26).slice == 16
