"""Live progress: what it says of a search, on a terminal and elsewhere."""

import io
import sys

import pytest
from rich.console import Console

from tilesmith.measure.result import Failure, Measurement, Status
from tilesmith.targets.ceilings import Ceilings
from tilesmith.tuner.budget import Budget
from tilesmith.tuner.roofline import Work
from tilesmith.tuner.watching import figures
from tilesmith.tuner.watching.figures import SearchState
from tilesmith.tuner.watching.progress import Live
from tilesmith.tuner.watching.watch import NOTHING, Before, Silent, Sitting
from tilesmith.tuner.watching.watchers import watchers_of

WORK = Work((("f32", 2_000_000_000),), 1000)
CEILINGS = Ceilings({"f32": 400e9}, ((1000, 1e12),), 2)
CRASH = Measurement(Status.CRASH, failure=Failure("time", "signal 11"))


def ok(seconds: float) -> Measurement:
    return Measurement(Status.OK, (seconds,))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(figures, "monotonic", lambda: now[0])
    return now


def test_the_line_counts_trials_failures_and_the_best(clock: list[float]) -> None:
    state = SearchState("matmul", WORK, CEILINGS, Budget(8), NOTHING)
    assert state.line() == "0/8 trials, 0 failed"
    assert state.take(CRASH) is False
    clock[0] = 10.0
    assert state.line() == "1/8 trials, 1 failed, 1:10 left"
    assert state.take(ok(0.02)) is True and state.take(ok(0.03)) is False and state.take(ok(0.01)) is True
    assert state.line() == "4/8 trials, best 200.0 GFLOP/s (50.0% of the ceiling), 1 failed, 0:10 left"
    assert state.share == 0.5


def test_a_continued_run_counts_from_where_it_was_cut(clock: list[float]) -> None:
    state = SearchState("matmul", WORK, CEILINGS, Budget(100), Before(60))
    assert state.seconds_left() is None and state.share == 0.6
    clock[0] = 5.0
    state.take(ok(0.02))
    assert state.seconds_left() == pytest.approx(39 * 5.0)


def test_a_continued_run_keeps_its_failures_its_best_and_the_time_that_it_took(clock: list[float]) -> None:
    state = SearchState(
        "matmul", WORK, CEILINGS, Budget(100, 60.0), Before(60, failures={"crash": 7}, best=0.01, spent=45.0)
    )
    assert state.share == 0.75
    assert state.line() == "60/100 trials, best 200.0 GFLOP/s (50.0% of the ceiling), 7 failed, 0:15 left"
    assert state.take(ok(0.02)) is False and state.take(CRASH) is False
    clock[0] = 10.0
    assert state.line() == "62/100 trials, best 200.0 GFLOP/s (50.0% of the ceiling), 8 failed, 0:05 left"


def test_of_two_limits_the_nearer_one_counts(clock: list[float]) -> None:
    state = SearchState("matmul", WORK, CEILINGS, Budget(1000, 60.0), NOTHING)
    clock[0] = 45.0
    state.take(ok(0.02))
    assert state.share == 0.75 and state.seconds_left() == 15.0
    assert SearchState("m", WORK, CEILINGS, Budget(None, 60.0), NOTHING).line() == "0 trials, 0 failed, 1:00 left"


def test_a_file_gets_a_line_for_each_improvement_and_one_at_the_end() -> None:
    file = io.StringIO()
    live = Live(Console(file=file, width=200))
    live.begin(Sitting("matmul [64]", WORK, CEILINGS, Budget(4)))
    for measurement in (ok(0.02), ok(0.03), CRASH, ok(0.01)):
        live.trial(measurement)
    live.end()
    live.end()
    lines = file.getvalue().splitlines()
    assert [line.partition(", best ")[0] for line in lines] == [
        "matmul [64]: 1/4 trials",
        "matmul [64]: 4/4 trials",
    ], "the end says nothing that was just said"


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    file = io.StringIO()
    live = Live(Console(file=file, width=200, force_terminal=True, force_interactive=True))
    live.begin(Sitting("matmul [64]", WORK, CEILINGS, Budget(2)))
    live.trial(ok(0.01))
    live.trial(ok(0.02))
    live.end()
    assert "━" in file.getvalue()
    assert file.getvalue().splitlines()[-1].endswith("2/2 trials, best 200.0 GFLOP/s (50.0% of the ceiling), 0 failed")


@pytest.mark.parametrize("title", ["matmul_f32_1024x1024x1024", "my_package_own_operator_f32_16x128x128x64x3x3"])
@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_a_narrow_terminal_shows_all_numbers(title: str, width: int) -> None:
    file = io.StringIO()
    live = Live(Console(file=file, width=width, force_terminal=True, force_interactive=True))
    live.begin(Sitting(title, WORK, CEILINGS, Budget(1000)))
    for _ in range(100):
        live.trial(ok(0.01))
    live.end()
    shown = [line for line in file.getvalue().replace("\r", "\n").splitlines() if "100/1000" in line]
    assert shown
    for line in shown:
        assert "best 200.0 GFLOP/s (50.0%" in line and "0 failed" in line and line.rstrip().endswith(" left")


def test_a_program_without_a_console_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stderr in (None, closed):
        monkeypatch.setattr(sys, "stderr", stderr)
        assert [type(one) for one in watchers_of(True, 2)] == [Silent, Silent]
