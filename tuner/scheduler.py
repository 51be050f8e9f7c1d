"""Many tasks, one budget: the next trials go where they are expected to save most.

    gain(task) = weight * seconds that the next trial is expected to take off the best time

What a task gained lately says what it will gain next; where little was tried yet, hope counts: the best of n trials falls
about as 1/n, and never below what the machine's ceilings allow. Both are read off the curve of the best so far, as in the
task scheduler of Zheng et al., "Ansor" (OSDI 2020). Trials are given out in slices, so that one task's candidates stand
beside each other in the queue: a timer that changes the program has to prepare its inputs anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count as numbers
from math import inf, isfinite
from numbers import Real
from typing import Any

from ..common.errors import ArgumentError
from ..measure.result import Continuing, Measurement, Purpose, Runner
from ..schedules.space import Candidate
from ..schedules.task import Task
from .budget import Budget
from .callbacks.callback import Callbacks
from .callbacks.event import TrialEvent
from .effort import Effort, OpeningTrials, Sharing
from .outcome import Spent, TaskResult
from .records.data import Trial
from .records.ranking import is_found_out
from .search.strategy import Judged, Prepared, Result, Strategy
from .session import Session
from .stopwatch import Stopwatch
from .thinking.place import Apart
from .watching.watch import Watcher, Whole

NUMBERS = numbers()  # of jobs: unlike in one process, so that nobody mistakes an answer to a search that was dropped


@dataclass(eq=False)
class TaskLane:
    """One task of a search: who chooses its candidates, and how it went. `weight`: how often the kernel is needed."""

    session: Session
    strategy: Strategy
    watcher: Watcher
    weight: float = 1.0
    seeds: Sequence[Candidate] = ()  # worth a trial before the strategy is asked, unless they are known
    callbacks: Callbacks = field(default_factory=Callbacks)
    thinking: Stopwatch = field(default_factory=Stopwatch)
    curve: list[float] = field(default_factory=list)  # seconds of the best so far after each trial
    asked: int = 0  # candidates given out in this sitting
    opening: bool = False  # whether what was given out last came before the strategy had a say
    _prepared: bool = False
    _kept: int = 0  # rounds of the model that are written
    open: bool = True  # False when the strategy has no more
    _last: list[Candidate] = field(default_factory=list)  # for when all else fails, or there is nothing else

    def begin(self, opening: OpeningTrials) -> None:
        """Tells the strategy what is known already."""
        with self.thinking:
            earlier = self._earlier = self.session.earlier_results()
            self.strategy.tell(earlier)
            tried = {candidate for candidate, _ in earlier}
            first = dict.fromkeys([*self.session.seeds(opening.seeds), *self.seeds])  # what was good elsewhere
            self._first = [candidate for candidate in first if candidate not in tried]
            self._last = [one for one in self.session.last(opening) if one not in tried]
            self._failing, self._loading = opening.failing, opening.loading
        for _, measurement in earlier:
            self._extend(measurement.seconds)
        self._before = len(self.curve)

    def go_on(self, runner: Runner, opening: OpeningTrials) -> None:
        """Trials that follow earlier ones are timed in their units. The middle one of the best tells them, as the least of many
        is a lucky one."""
        ran = sorted((result for result in self._earlier if result[1].ok), key=lambda result: result[1].seconds)
        close = [result for result in ran if result[1].seconds <= opening.near * ran[0][1].seconds]
        if close and isinstance(runner, Continuing):
            candidate, measurement = close[len(close) // 2]
            runner.go_on_from(self.session.job(candidate, next(NUMBERS), Purpose.SEARCH), measurement.seconds)

    def ask(self, count: int) -> list[Candidate]:
        """Gives up to `count` candidates; none when there are no more."""
        with self.thinking:
            first, self._first = self._first[:count], self._first[count:]
            failing = len(self.curve) >= self._failing and self.curve[-1] == inf
            asked = first or (self._last if failing else []) or self.strategy.ask(count) or self._last
            self._keep_rounds()
        self._last = [candidate for candidate in self._last if candidate not in asked]
        self.opening = bool(first)
        self.asked += len(asked)
        self.open = bool(asked)
        return asked

    def hear(self, candidate: Candidate, measurement: Measurement) -> None:
        """Takes in what another search has just measured: no trial of this one."""
        self.asked -= 1
        self.session.fastest = min(self.session.fastest, measurement.seconds)
        self.tell([(candidate, measurement)])

    def tell(self, results: Sequence[Result]) -> None:
        """Takes in how candidates ended."""
        for _, measurement in results:
            self._extend(measurement.seconds)
        with self.thinking:
            self.strategy.tell(results)

    def prepare(self) -> None:
        """Once, when the search has come so far that it will be needed: what the strategy had put off until then."""
        if len(self.curve) >= self._loading and not self._prepared:
            self._prepared = True
            if isinstance(self.strategy, Prepared):
                with self.thinking:
                    self.strategy.prepare()

    @property
    def thought(self) -> float:
        """Seconds that the search has computed for this lane; what it waited for a child that thinks is none of it."""
        return self.strategy.seconds if isinstance(self.strategy, Apart) else self.thinking.seconds

    def finish(self) -> None:
        """Writes what the model had said of the last trials."""
        with self.thinking:
            if isinstance(self.strategy, Judged):
                self.strategy.judge()
            self._keep_rounds()

    def _keep_rounds(self) -> None:
        """Writes what the strategy's model said of the last batches, where it has one."""
        if isinstance(self.strategy, Judged):
            for judged in self.strategy.rounds[self._kept :]:
                self.session.record_round(judged)
            self._kept = len(self.strategy.rounds)

    def record(self, candidate: Candidate, measurement: Measurement) -> None:
        """Writes a search trial that came home. On return it is safe."""
        before = self.session.fastest
        trial = self.session.record(candidate, measurement, Purpose.SEARCH)
        self.watcher.trial(measurement)
        if self.callbacks:
            self.callbacks.trial(self._event(trial, before))

    def _event(self, trial: Trial, before: float) -> TrialEvent:
        session = self.session
        return TrialEvent(
            session.problem.title, trial.task, session.done, trial.sketch, json.loads(trial.config), trial.measurement,
            session.fastest, before, trial.elapsed,
        )  # fmt: skip

    def confirm(self, runner: Runner, effort: Effort) -> None:
        """Checks the leaders thoroughly and measures them again, side by side: the winner is the best of these. Where some are
        found out, those that come after them have their turn, until all that lead are right."""
        while not self._all_right(runner, self.session.contenders(effort.confirm, effort.margin, effort.least)):
            pass

    def _all_right(self, runner: Runner, contenders: Sequence[Candidate]) -> bool:
        """Confirms; whether none was found out. One alone has nothing to be compared with, but may have to be checked."""
        if not contenders or (len(contenders) == 1 and not self.session.problem.sampled):
            return True
        jobs = [self.session.job(candidate, next(NUMBERS), Purpose.CONFIRM) for candidate in contenders]
        yardstick = self.session.yardstick()
        if yardstick is not None:
            jobs.append(self.session.job(yardstick, next(NUMBERS), Purpose.YARDSTICK))
        answers = runner.confirm(jobs)
        trials = [
            self.session.record(candidate, measurement, Purpose.CONFIRM)
            for candidate, (_, measurement) in zip(contenders, answers, strict=False)
        ]
        return not any(map(is_found_out, trials))

    def gain(self, settings: Sharing) -> float:
        """Seconds that the next trial is expected to take off the best, times the weight; infinity before the first slice."""
        tried = self._before + self.asked
        if self.asked < settings.slice and self._before < settings.slice:
            return inf
        floor = self.session.problem.floor
        return self.weight * expected_gain(self.curve, tried, floor, settings)

    def _extend(self, seconds: float) -> None:
        self.curve.append(min(seconds, self.curve[-1]) if self.curve else seconds)


def expected_gain(curve: Sequence[float], tried: int, floor: float, settings: Sharing) -> float:
    """Seconds that one more trial takes off the best so far.

    Args:
        curve: the best so far after each trial, infinity before the first that ran.
        tried: trials so far, those in flight included.
        floor: seconds that nothing can beat.
    """
    if not curve or curve[-1] == inf:
        return inf if tried < settings.patience else 0.0  # a task in which nothing runs must not eat all
    now = curve[-1]
    since = [seconds for seconds in curve[-settings.window - 1 :] if seconds < inf]
    seen = (since[0] - now) / max(len(since) - 1, 1)
    hoped = max(min(settings.hope * now, now - floor), 0.0) / max(tried, 1)
    return settings.recent * seen + (1.0 - settings.recent) * hoped


class TaskScheduler:
    """Gives out trials, a slice at a time, to the lane that is expected to gain most."""

    def __init__(self, lanes: Sequence[TaskLane], settings: Sharing) -> None:
        self._lanes, self._settings = lanes, settings
        self._current: TaskLane | None = None
        self._left = 0  # of the slice

    def ask(self, count: int) -> list[tuple[TaskLane, Candidate]]:
        """1 to `count` candidates and whose they are; none when no lane has any more."""
        while (lane := self._turn()) is not None:
            alone = sum(other.open for other in self._lanes) == 1
            asked = lane.ask(count if alone else min(count, self._left))
            self._left -= len(asked)
            if asked:
                return [(lane, candidate) for candidate in asked]
        return []

    def _turn(self) -> TaskLane | None:
        if self._current is None or not self._current.open or self._left <= 0:
            open_lanes = [lane for lane in self._lanes if lane.open]
            self._current = max(open_lanes, key=lambda lane: lane.gain(self._settings), default=None)
            self._left = self._settings.slice
        return self._current


def checked_weights(weights: Sequence[float] | None, tasks: int) -> list[float]:
    """One weight for each task, 1 where none is given. Raises ArgumentError: no tasks, or not one positive number each."""
    if not tasks:
        raise ArgumentError("there is nothing to tune", expected="at least one program")
    given: list[Any] = [1.0] * tasks if weights is None else list(weights)
    right = [isinstance(weight, Real) and isfinite(weight) and float(weight) > 0 for weight in given]
    if len(given) != tasks or not all(right):
        raise ArgumentError(
            "the weights do not fit the programs",
            expected=f"{tasks} positive number{'' if tasks == 1 else 's'}",
            found=", ".join(map(str, given)),
        )
    return [float(weight) for weight in given]


def check_different(tasks: Sequence[Task]) -> None:
    """Raises ArgumentError where the same task stands twice: it would be continued by itself."""
    if len({task.key for task in tasks}) < len(tasks):
        raise ArgumentError(
            "two of the programs are the same", advice="name each once; a weight says how often it is needed"
        )


def workers_of(runner: Runner) -> str:
    """Returns who builds and times, in words."""
    return getattr(runner, "workers", "") or f"up to {runner.capacity} trials at once by {runner.name}"


def tell_watchers(lanes: Sequence[TaskLane], runner: Runner, budget: Budget, whole: Whole | None) -> None:
    """Writes into the database what `tune watch` cannot know otherwise."""
    workers = workers_of(runner)
    for number, lane in enumerate(lanes):
        session, weight = lane.session, lane.weight
        facts: dict[str, object] = {
            "trials": budget.trials, "seconds": budget.seconds, "workers": workers, "title": session.problem.title,
            "number": number, "count": weight, "machine": session.problem.machine.key,
            "program": session.problem.identity.display,
        }  # fmt: skip
        if whole is not None:
            facts |= {"model": whole.name, "place": whole.places[number]}
        session.database.add_sitting(session.run.id, facts)


def results_of(lanes: Sequence[TaskLane], *, interrupted: bool) -> tuple[TaskResult, ...]:
    """Returns what each lane leaves. The wall time of lanes that shared it is parted by their trials."""
    total = max(sum(lane.session.done for lane in lanes), 1)
    results = []
    for lane in lanes:
        session, records = lane.session, lane.session.records()
        wall = session.spent * (session.done / total if len(lanes) > 1 else 1.0)
        spent = Spent.on(records, wall, lane.thought)
        exhausted = None if lane.open or interrupted else session.measured()
        results.append(TaskResult(session.problem.identity, session.best(), records, spent, interrupted, exhausted))
    return tuple(results)
