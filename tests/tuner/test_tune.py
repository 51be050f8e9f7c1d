"""The loop from end to end on recorded spaces: nothing is compiled, nothing is timed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from tilesmith.common.errors import ArgumentError, BudgetError, SearchFailed
from tilesmith.measure.replay import ReplayRunner, ReplaySpace
from tilesmith.measure.result import Failure, Job, Measurement, Purpose, Status
from tilesmith.schedules.space import Candidate, ConfigValue, config
from tilesmith.targets.ceilings import Ceilings
from tilesmith.tensor.ops import matmul
from tilesmith.tuner.budget import Budget
from tilesmith.tuner.cli.report import outcome, status_line
from tilesmith.tuner.effort import NORMAL, Effort
from tilesmith.tuner.outcome import TaskResult, TuneResult
from tilesmith.tuner.problem import Problem
from tilesmith.tuner.records.data import Machine, TaskIdentity
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.roofline import Work
from tilesmith.tuner.scheduler import TaskLane
from tilesmith.tuner.search.strategy import make_strategy
from tilesmith.tuner.session import Session
from tilesmith.tuner.terminal import make_console
from tilesmith.tuner.tune import search, tune
from tilesmith.tuner.units import time_text
from tilesmith.tuner.watching.watch import NOTHING, Silent, Sitting

TABLE = Path(__file__).parents[1] / "data" / "replay" / "convolution-A100.json.gz"


class NamedReplay(ReplaySpace):
    def sketch_text(self, number: int) -> str:
        return f"sketch {self.config_spaces[number].name}\n"

    def config(self, candidate: Candidate) -> dict[str, ConfigValue]:
        return config(self.config_spaces[candidate.sketch], candidate.choices)


SPACE = NamedReplay(TABLE)


class Watching(Silent):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.before = NOTHING

    def begin(self, sitting: Sitting) -> None:
        self.events.append(f"begin {sitting.before.trials}")
        self.before = sitting.before

    def trial(self, measurement: Measurement) -> None:
        self.events.append("trial")

    def end(self) -> None:
        self.events.append("end")


class Interrupting(ReplayRunner):
    """Presses ctrl-C when so many answers were collected."""

    def __init__(self, after: int) -> None:
        super().__init__(SPACE.table, capacity=4)
        self.after = after
        self.collected = 0

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        if self.collected >= self.after:
            raise KeyboardInterrupt
        home = super().collect(timeout)
        self.collected += len(home)
        return home


class HalfBroken(Interrupting):
    """Every second answer is a crash."""

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        crash = Measurement(Status.CRASH, failure=Failure("time", "signal 11"))
        home = super().collect(timeout)
        return [(number, crash if number % 2 else measurement) for number, measurement in home]


class Failing(ReplayRunner):
    """Every candidate fails, for one of four reasons of different frequency."""

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        return [(number, self.fail(index)) for index, (number, _) in enumerate(super().collect(timeout))]

    @staticmethod
    def fail(index: int) -> Measurement:
        stages = ("verify", "verify", "verify", "compile", "compile", "time", "time", "load")
        stage = stages[index % 8]
        return Measurement(Status.CRASH, failure=Failure(stage, f"broken in {stage}\nmore"), builder="replay")


class Counting(ReplayRunner):
    """Notes how many were on their way each time that it was asked for answers."""

    def __init__(self) -> None:
        super().__init__(SPACE.table)
        self.flying: list[int] = []

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        home = super().collect(timeout)
        self.flying.append(len(home))
        return home


class GoingOn(ReplayRunner):
    """Notes from what it is to go on."""

    def __init__(self) -> None:
        super().__init__(SPACE.table)
        self.known: list[tuple[dict[str, ConfigValue], float]] = []

    def go_on_from(self, job: Job, seconds: float) -> None:
        self.known.append((dict(job.config), seconds))


def problem(space: NamedReplay = SPACE, builder: str = "replay", machine: str = "m1") -> Problem:
    identity = TaskIdentity("p" * 64, "f" * 64, "program", "display", "t" * 64, "x86:avx2", 1)
    return Problem(
        "a test", identity, space, Machine(machine, "a test"), builder, Ceilings({}, ((1, 1.0),), 1), Work((), 0)
    )


def run(
    path: Path,
    trials: int | None = 40,
    runner: ReplayRunner | None = None,
    *,
    strategy: str = "random",
    watcher: Watching | None = None,
    given: Problem | None = None,
    seconds: float | None = None,
    effort: Effort = NORMAL,
) -> TaskResult:
    given = given or problem()
    with Database(path) as database:
        session = Session.begin(database, given, {"trials": trials, "strategy": strategy})
        chooser = make_strategy(strategy, given.space, 0)
        worker = runner or ReplayRunner(SPACE.table)
        lane = TaskLane(session, chooser, watcher or Silent())
        return search([lane], worker, Budget(trials, seconds), effort).tasks[0]


def searched(result: TaskResult) -> list[str]:
    return [r.trial.config for r in result.records if r.trial.purpose is Purpose.SEARCH]


def test_it_makes_as_many_trials_as_asked_for_and_confirms_the_best(tmp_path: Path) -> None:
    watcher = Watching()
    generous = replace(NORMAL, margin=10.0)  # the best of this space may be far ahead of the next
    result = run(tmp_path / "a.db", strategy="guided", watcher=watcher, effort=generous)
    assert len(searched(result)) == len(set(searched(result))) == 40
    assert watcher.events == ["begin 0", *["trial"] * 40, "end"]
    confirmed = [r for r in result.records if r.trial.purpose is Purpose.CONFIRM]
    assert 2 <= len(confirmed) <= NORMAL.confirm
    assert result.best is not None and result.best.trial.purpose is Purpose.CONFIRM
    assert result.best.seconds == min(r.seconds for r in result.records)
    assert not result.interrupted
    assert result.spent.wall >= result.spent.search > 0


def test_a_finished_run_is_followed_by_one_that_skips_what_is_known(tmp_path: Path) -> None:
    first, second = (run(tmp_path / "a.db") for _ in range(2))
    assert len(searched(second)) == 40
    assert not set(searched(first)) & set(searched(second))
    assert second.best is not None and first.best is not None
    assert second.best.seconds <= first.best.seconds  # also what an earlier run found counts


class Nested(ReplayRunner):
    """In the middle of a search another one of the same task begins and ends, with as many trials in the same database."""

    def __init__(self, path: Path) -> None:
        super().__init__(SPACE.table, capacity=4)
        self.path = path
        self.other: TaskResult | None = None

    def collect(self, timeout: float | None = None) -> Sequence[tuple[int, Measurement]]:
        if self.other is None:
            self.other = run(self.path, 31, ReplayRunner(SPACE.table, capacity=4))  # a request of its own
        return super().collect(timeout)


def test_searches_of_one_task_at_the_same_time_count_their_own_trials_and_share_what_they_learn(tmp_path: Path) -> None:
    runner, watcher = Nested(tmp_path / "a.db"), Watching()
    outer = run(tmp_path / "a.db", 30, runner, watcher=watcher)
    assert runner.other is not None
    mine, theirs = searched(outer), searched(runner.other)
    assert watcher.events.count("trial") == 30
    assert len(mine) == 30
    assert len(theirs) == 31
    begun = 4  # what was in flight before either could know
    assert len({*mine, *theirs}) >= len(mine) + len(theirs) - begun
    assert outer.best is not None
    with Database(tmp_path / "a.db") as database:
        assert outer.best == database.best(outer.task.key)[0], "what the other one found counts"


def test_trials_that_follow_others_are_timed_in_their_units(tmp_path: Path) -> None:
    fresh, following = GoingOn(), GoingOn()
    first = run(tmp_path / "a.db", runner=fresh)
    assert fresh.known == []
    run(tmp_path / "a.db", runner=following)
    ((config, seconds),) = following.known
    records = [r for r in first.records if r.trial.purpose is Purpose.SEARCH]
    assert seconds in [r.seconds for r in records if r.config == config]
    assert first.best is not None and seconds <= NORMAL.opening.near * min(r.seconds for r in records)


def test_ctrl_c_ends_with_the_best_so_far_and_the_same_command_continues(tmp_path: Path) -> None:
    cut = run(tmp_path / "a.db", runner=Interrupting(after=18))
    assert cut.interrupted
    assert len(searched(cut)) == 20  # four at a time
    assert cut.best is not None and cut.best.seconds == min(r.seconds for r in cut.records)
    watcher = Watching()
    whole = run(tmp_path / "a.db", watcher=watcher)
    assert watcher.events[0] == "begin 20" and watcher.events.count("trial") == 20
    assert len(set(searched(whole))) == len(searched(whole)) == 40
    assert set(searched(cut)) < set(searched(whole))
    assert set(searched(whole)) == set(searched(run(tmp_path / "b.db")))  # as if it had not been cut


def test_a_continued_run_shows_what_failed_and_what_was_best_before(tmp_path: Path) -> None:
    cut = run(tmp_path / "a.db", runner=HalfBroken(after=18))
    watcher = Watching()
    run(tmp_path / "a.db", watcher=watcher)
    assert cut.best is not None
    assert (watcher.before.trials, sum(watcher.before.failures.values()), watcher.before.best) == (
        20,
        10,
        cut.best.seconds,
    )
    assert 0 < watcher.before.spent < 60
    fresh = Watching()
    run(tmp_path / "a.db", trials=39, watcher=fresh)
    assert replace(fresh.before, known=inf) == NOTHING, "another request is a new run"
    assert 0 < fresh.before.known <= cut.best.seconds, "of all runs"


def test_ctrl_c_before_anything_is_no_error(tmp_path: Path) -> None:
    result = run(tmp_path / "a.db", runner=Interrupting(after=0))
    assert result.interrupted and result.best is None and not result.records


def test_an_exhausted_space_ends_the_search(tmp_path: Path) -> None:
    result = run(tmp_path / "a.db", trials=100_000)
    assert len(searched(result)) == len(SPACE.table.seconds)
    assert result.best is not None and result.best.seconds == SPACE.table.best
    assert result.exhausted == len(SPACE.table.seconds) and run(tmp_path / "b.db", trials=5).exhausted is None
    with Database(tmp_path / "a.db") as database:
        console = make_console()
        with console.capture() as shown:
            console.print(outcome(database, replace(result, task=replace(result.task, display=str(matmul(4, 4, 4))))))
    assert f"all {result.exhausted} configs that it has were measured" in shown.get()


def test_results_are_short_in_a_notebook(tmp_path: Path) -> None:
    result = run(tmp_path / "a.db", trials=5)
    assert result.best is not None
    told = (
        f"<TuneResult {result.task.key[:8]}: best {time_text(result.best.seconds)} (record {result.best.id}), 5 trials"
    )
    assert repr(TuneResult((result,))).startswith(told) and repr(TuneResult((result, result))).count("\n") == 1
    stopped = run(tmp_path / "b.db", runner=Interrupting(after=0))
    assert "nothing ran, 0 trials" in repr(stopped) and repr(stopped).endswith("interrupted>")


def test_failures_of_both_kinds_are_counted(tmp_path: Path) -> None:
    result = run(tmp_path / "a.db", trials=5)
    bad = Measurement(Status.UNSTABLE, failure=Failure("time", "the times cannot be trusted"))
    confirmed = replace(result.records[0].trial, purpose=Purpose.CONFIRM, measurement=bad)
    line = status_line([*result.records, replace(result.records[0], trial=confirmed)])
    assert line.startswith("5 trials: 5 ok") and line.endswith("measured again (1 unstable)")


def test_a_time_budget_ends_the_search(tmp_path: Path) -> None:
    result = run(tmp_path / "a.db", trials=None, seconds=0.2)
    assert 0 < len(searched(result)) < len(SPACE.table.seconds)
    assert not result.interrupted


def test_time_that_ends_before_the_first_trial_is_no_failure(tmp_path: Path) -> None:
    result = run(tmp_path / "a.db", trials=None, seconds=1e-9)
    assert result.best is None and not result.records and not result.interrupted
    assert searched(run(tmp_path / "a.db", trials=3))


def test_when_all_fail_the_three_commonest_reasons_are_told(tmp_path: Path) -> None:
    with pytest.raises(SearchFailed, match="none of the 40 candidates") as caught:
        run(tmp_path / "a.db", runner=Failing(SPACE.table))
    told = str(caught.value)
    assert told.index("15 of 40: crash in verify: broken in verify") < told.index("10 of 40: crash in compile")
    assert "crash in time" in told and "crash in load" not in told and "more\n" not in told
    with Database(tmp_path / "a.db") as database:
        records = database.records(problem().identity.key)
        assert len(records) == 40  # failures are records too
        assert f"tune replay {records[0].id} --db {tmp_path / 'a.db'}" in told


def test_times_of_another_machine_or_builder_are_seeds_and_no_answers(tmp_path: Path) -> None:
    here = run(tmp_path / "a.db")
    assert here.best is not None
    for other in (problem(machine="m2"), problem(builder="replay 2")):
        with Database(tmp_path / "a.db") as database:
            session = Session.begin(database, other, {"x": 1})
            assert session.known == [] and session.best() is None
            first = session.seeds(NORMAL.opening.seeds)
            assert [json.loads(here.best.trial.config)] == [SPACE.config(c) for c in first[:1]]
            assert len(first) == 4


def test_the_strategy_thinks_while_the_first_ones_are_measured(tmp_path: Path) -> None:
    run(tmp_path / "a.db")
    runner = Counting()
    run(tmp_path / "a.db", runner=runner, trials=20, given=problem(machine="m2"))
    assert runner.flying[0] == runner.capacity, "four that were good elsewhere are not waited for"


def test_records_whose_config_left_the_domains_are_skipped(tmp_path: Path) -> None:
    run(tmp_path / "a.db")
    with Database(tmp_path / "a.db") as database:
        session = Session.begin(database, problem(), {"y": 1})
        assert len(session.earlier_results()) == 40
        first = session.known[0]
    assert problem().candidate(first.trial.sketch, {**first.config, "block_size_x": 17}) is None
    assert problem().candidate(first.trial.sketch, {"block_size_x": 16}) is None
    assert problem().candidate("another sketch", first.config) is None


def test_jobs_carry_the_best_time_as_their_limit(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        session = Session.begin(database, problem(), {})
        candidate = Candidate(0, tuple(int(c) for c in SPACE.table.choices[0]))
        assert session.job(candidate, 7, Purpose.SEARCH).limit == float("inf")  # none is known yet
        session.record(candidate, Measurement(Status.OK, (2.0,)), Purpose.SEARCH)
        job: Job = session.job(candidate, 8, Purpose.SEARCH)
        assert (job.number, job.limit, job.sketch, job.target) == (8, 2.0, SPACE.sketch_text(0), "x86:avx2")
        assert session.job(candidate, 9, Purpose.CONFIRM).limit is None


@pytest.mark.parametrize(("trials", "seconds"), [(0, None), (-1, None), (None, 0.0), (None, float("nan")), (5, -1.0)])
def test_a_budget_that_allows_nothing(trials: int | None, seconds: float | None) -> None:
    with pytest.raises(BudgetError, match="allows nothing"):
        Budget.of(trials, seconds)


def test_budgets() -> None:
    assert Budget.of(None, None) == Budget(NORMAL.trials, None)
    assert Budget.of(None, 5.0).over(10**9, 4.9) is False
    assert Budget.of(10, 5.0).over(10, 0.0) and Budget.of(10, 5.0).over(0, 5.0)
    with pytest.raises(BudgetError, match="whole numbers"):
        Budget.of(1.5, None)  # type: ignore[arg-type]


def test_wrong_words_are_refused_before_any_work() -> None:
    with pytest.raises(ArgumentError, match="nothing to tune"):
        tune([])
    with pytest.raises(ArgumentError, match="unknown effort"):
        tune([], effort="heroic")


def test_more_threads_than_processors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="5000 threads cannot be timed"):
        tune(matmul(8, 8, 8), threads=5000, trials=1, db=tmp_path / "a.sqlite", progress=False)
