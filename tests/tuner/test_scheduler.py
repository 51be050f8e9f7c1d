"""Many tasks, one budget: who gets the next trials, and that nothing is lost or made twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from math import exp, inf
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from contracts.spaces import ToySpace
from tilesmith.common.errors import ArgumentError, SearchFailed
from tilesmith.measure.result import Failure, Job, Measurement, Status
from tilesmith.schedules.space import Candidate, ConfigSpace, ConfigValue, Population, config
from tilesmith.schedules.space_ops import enumerate_configs
from tilesmith.targets.ceilings import Ceilings
from tilesmith.tensor.ops import matmul
from tilesmith.tuner.budget import Budget
from tilesmith.tuner.cli.report import model_table
from tilesmith.tuner.effort import NORMAL, Sharing
from tilesmith.tuner.outcome import TuneResult
from tilesmith.tuner.problem import Problem
from tilesmith.tuner.records.data import Machine, TaskIdentity
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.roofline import Work
from tilesmith.tuner.scheduler import TaskLane, expected_gain
from tilesmith.tuner.search.rounds import Round
from tilesmith.tuner.search.strategy import Result, candidates, make_strategy
from tilesmith.tuner.session import Session
from tilesmith.tuner.tune import search, tune
from tilesmith.tuner.watching.watch import Silent

SHARING = Sharing()
CEILINGS = Ceilings({}, ((1, 1.0),), 1)


class NamedToy(ToySpace):
    """A toy whose candidates can be written down."""

    def sketch_text(self, number: int) -> str:
        return f"sketch {self.config_spaces[number].name}\n"

    def config(self, candidate: Candidate) -> dict[str, ConfigValue]:
        return config(self.config_spaces[candidate.sketch], candidate.choices)


class WithNest(NamedToy):
    """A toy with an unscheduled nest as its last sketch."""

    @property
    def config_spaces(self) -> Sequence[ConfigSpace]:
        return (*super().config_spaces, ConfigSpace("nest", "nest", ()))

    def sketch_text(self, number: int) -> str:
        return super().sketch_text(number) if self.config_spaces[number].parameters else ""

    def prior(self, p: Population) -> NDArray[np.float64] | None:
        return super().prior(p) if p.sketch < 2 else np.full(len(p), 1e-2)


SPACE = NamedToy()


class ToyRunner:
    """Times are the toy's, `scale[program]` times as long; counts the jobs of each program in their order."""

    name, capacity = "toy", 4

    def __init__(self, scale: dict[str, float], interrupt_after: float = inf) -> None:
        self.scale, self.interrupt_after = scale, interrupt_after
        self.order: list[str] = []
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self.order.append(job.program)
        self._jobs.append(job)

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        if len(self.order) > self.interrupt_after:
            raise KeyboardInterrupt
        jobs, self._jobs = self._jobs, []
        return [(job.number, self._answer(job)) for job in jobs]

    def _answer(self, job: Job) -> Measurement:
        sketch = next(n for n in range(len(SPACE.config_spaces)) if SPACE.sketch_text(n) == job.sketch)
        places = tuple(p.values.index(job.config[p.name]) for p in SPACE.config_spaces[sketch].parameters)
        found = SPACE.measure(Candidate(sketch, places))
        return replace(found, times=tuple(t * self.scale[job.program] for t in found.times), builder="toy")

    def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
        return [(job.number, self._answer(job)) for job in jobs]

    def close(self) -> None:
        pass

    def __enter__(self) -> ToyRunner:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def run(path: Path, trials: int, runner: ToyRunner, weights: dict[str, float], strategy: str = "random") -> TuneResult:
    with Database(path) as database:
        lanes = []
        for name, weight in weights.items():
            identity = TaskIdentity(name * 64, "f" * 64, name, "display", "t" * 64, "x86:avx2", 1)
            given = Problem(name, identity, SPACE, Machine("m1", "a test"), "toy", CEILINGS, Work((), 0))
            session = Session.begin(database, given, {"trials": trials})
            lanes.append(TaskLane(session, make_strategy(strategy, SPACE, 0), Silent(), weight))
        return search(lanes, runner, Budget(trials), NORMAL)


def test_recent_gain_hope_and_the_floor_make_the_expected_gain() -> None:
    flat, falling = [1.0] * 50, [exp(-n / 25) for n in range(50)]
    assert expected_gain(falling, 50, 0.0, SHARING) > 3 * expected_gain([falling[-1]] * 50, 50, 0.0, SHARING)
    assert expected_gain(flat, 50, 0.0, SHARING) > expected_gain(flat, 500, 0.0, SHARING) > 0
    assert expected_gain(flat, 50, 0.99, SHARING) < expected_gain(flat, 50, 0.0, SHARING) / 10
    assert expected_gain(flat, 50, 1.2, SHARING) == 0  # a ceiling that was beaten
    assert expected_gain([], 0, 0.0, SHARING) == expected_gain([inf] * 20, 20, 0.0, SHARING) == inf
    assert expected_gain([inf] * 64, 64, 0.0, SHARING) == 0


def test_every_task_gets_a_slice_and_then_the_slow_one_most(tmp_path: Path) -> None:
    runner = ToyRunner({"a": 1.0, "b": 100.0, "c": 1.0})
    result = run(tmp_path / "a.sqlite", 240, runner, {"a": 1.0, "b": 1.0, "c": 1.0})
    assert len(runner.order) == 240
    assert set(runner.order[: 3 * SHARING.slice]) == {"a", "b", "c"}
    assert runner.order.count("b") > 0.6 * 240
    assert min(runner.order.count(name) for name in "abc") >= SHARING.slice
    assert [len(task.records) >= SHARING.slice for task in result.tasks] == [True] * 3


def test_weights_count_as_seconds_do(tmp_path: Path) -> None:
    runner = ToyRunner({"a": 1.0, "b": 1.0})
    run(tmp_path / "a.sqlite", 160, runner, {"a": 100.0, "b": 1.0})
    assert runner.order.count("a") > 0.7 * 160


def test_ctrl_c_keeps_all_and_the_same_search_is_continued(tmp_path: Path) -> None:
    weights, scale = {"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 3.0}
    cut = run(tmp_path / "a.sqlite", 120, ToyRunner(scale, interrupt_after=50), weights)
    before = len(cut.records)
    assert cut.interrupted and 40 <= before <= 52
    rest = ToyRunner(scale)
    done = run(tmp_path / "a.sqlite", 120, rest, weights)
    assert len(rest.order) == 120 - before
    searched = [r for r in done.records if str(r.trial.purpose) == "search"]
    assert len(searched) == 120
    assert len({(r.trial.task, r.trial.sketch, r.trial.config) for r in searched}) == 120


def test_a_task_in_which_nothing_runs_leaves_the_budget_to_the_others(tmp_path: Path) -> None:
    class Broken(ToyRunner):
        def _answer(self, job: Job) -> Measurement:
            return Measurement(Status.CRASH) if job.program == "a" else super()._answer(job)

    runner = Broken({"a": 1.0, "b": 1.0})
    result = run(tmp_path / "a.sqlite", 300, runner, {"a": 1.0, "b": 1.0})
    assert runner.order.count("a") <= SHARING.patience + SHARING.slice
    assert result.tasks[0].best is None and result.tasks[1].best is not None


def test_a_task_without_more_candidates_leaves_the_rest_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = TaskLane.ask

    def limited(lane: TaskLane, count: int) -> list[Candidate]:
        if lane.session.problem.title == "a" and lane.asked >= 20:
            lane.open = False
            return []
        return ask(lane, count)

    monkeypatch.setattr(TaskLane, "ask", limited)
    runner = ToyRunner({"a": 100.0, "b": 1.0})
    run(tmp_path / "a.sqlite", 100, runner, {"a": 1.0, "b": 1.0})
    assert len(runner.order) == 100 and runner.order.count("a") <= 24


@pytest.mark.parametrize("runs", [True, False])
def test_the_unscheduled_nest_is_tried_only_where_nothing_runs(tmp_path: Path, runs: bool) -> None:
    space = WithNest()

    class Some(ToyRunner):
        def _answer(self, job: Job) -> Measurement:
            return Measurement(Status.OK, (1.0,)) if runs or not job.sketch else Measurement(Status.CRASH)

    class Tiled:
        """A strategy that never thinks of the nest."""

        def __init__(self) -> None:
            self._some = iter(candidates(next(enumerate_configs(space, 0))))

        def ask(self, count: int) -> list[Candidate]:
            return [one for _, one in zip(range(count), self._some, strict=False)]

        def tell(self, results: Sequence[Result]) -> None:
            pass

    runner, name = Some({}), "a"
    with Database(tmp_path / "a.sqlite") as database:
        identity = TaskIdentity(name * 64, "f" * 64, name, "display", "t" * 64, "x86:avx2", 1)
        given = Problem(name, identity, space, Machine("m1", "a test"), "toy", CEILINGS, Work((), 0))
        session = Session.begin(database, given, {})
        search([TaskLane(session, Tiled(), Silent())], runner, Budget(40), NORMAL)
        places = [n for n, r in enumerate(session.records()) if not r.trial.sketch]
    assert not places if runs else len(places) == 1 and NORMAL.opening.failing <= places[0] < 24


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, inf], [1.0, 1.0, 1.0]])
def test_weights_that_do_not_fit_are_refused(weights: list[float]) -> None:
    with pytest.raises(ArgumentError, match="weights do not fit"):
        tune([matmul(8, 8, 8), matmul(8, 8, 16)], weights=weights)


def test_the_same_program_twice_is_refused() -> None:
    with pytest.raises(ArgumentError, match="two of the programs are the same"):
        tune([matmul(8, 8, 8), matmul(8, 8, 8)])


def test_what_the_model_said_of_each_batch_is_kept_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    done = run(path, 80, ToyRunner({"a": 1.0}), {"a": 1.0}, "guided")
    with Database(path, read_only=True) as database:
        (found,) = database.runs(done.tasks[0].task.key)
        rounds = [Round.from_json(text) for text in database.rounds(found.id)]
        assert [r.number for r in rounds] == list(range(len(rounds))) and len(rounds) >= 5
        assert all(-1 <= r.correlation <= 1 and 0 <= r.peak <= 1 and 0 <= r.recall <= 1 for r in rounds)
        assert [r.known for r in rounds] == sorted({r.known for r in rounds}) and rounds[-1].known >= 60
        assert rounds[0].known == 0 and sum(r.batch for r in rounds) == 80, (
            "the draft and the last trials are among them"
        )
        console = Console(width=200, file=StringIO())
        console.print(model_table(database, done.tasks[0].task))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "a-peak@batch" in shown and len(shown.splitlines()) == len(rounds) + 1


def test_who_is_found_out_gives_way_until_all_that_lead_are_right(tmp_path: Path) -> None:
    """Of the seven fastest, whom trials passed, a confirmation finds six to be wrong; it takes all who may lead."""
    wrong: set[str] = set()
    confirmed: list[int] = []

    class FindingOut(ToyRunner):
        def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
            if not confirmed:
                wrong.update(str(job.config) for job in jobs[:6])
            confirmed.append(len(jobs))
            bad = Measurement(Status.WRONG_RESULT, failure=Failure("verify", "wrong"), builder="toy")
            return [(job.number, bad if str(job.config) in wrong else self._answer(job)) for job in jobs]

    result = run(tmp_path / "a.sqlite", 60, FindingOut({"a": 1.0}), {"a": 1.0})
    assert len(confirmed) == 2 and len(wrong) == min(6, confirmed[0])
    assert result.best is not None and str(result.best.config) not in wrong
    assert str(result.best.trial.purpose) == "confirm"


def test_there_is_no_winner_where_all_are_found_out(tmp_path: Path) -> None:
    class FindingOut(ToyRunner):
        def confirm(self, jobs: Sequence[Job]) -> Sequence[tuple[int, Measurement]]:
            return [(job.number, Measurement(Status.WRONG_RESULT, builder="toy")) for job in jobs]

    with Database(tmp_path / "a.sqlite") as database:
        identity = TaskIdentity("a" * 64, "f" * 64, "a", "display", "t" * 64, "x86:avx2", 1)
        given = Problem("a", identity, SPACE, Machine("m1", "a test"), "toy", CEILINGS, Work((), 0), sampled=True)
        session = Session.begin(database, given, {})
        lane = TaskLane(session, make_strategy("random", SPACE, 0), Silent())
        with pytest.raises(SearchFailed):
            search([lane], FindingOut({"a": 1.0}), Budget(9), NORMAL)
        assert session.best() is None


def test_what_a_check_cannot_tell_is_said_once(tmp_path: Path) -> None:
    class Unsure(ToyRunner):
        def _answer(self, job: Job) -> Measurement:
            return replace(super()._answer(job), remark="zeros would pass")

    with pytest.warns(UserWarning, match="zeros would pass") as said:
        run(tmp_path / "a.sqlite", 8, Unsure({"a": 1.0}), {"a": 1.0})
    assert len(said) == 1
