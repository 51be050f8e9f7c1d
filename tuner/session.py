"""One run of a search on one task: what the database knew before, and what goes into it."""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

from ..common.debug import DebugLevel, show
from ..measure.checking.verify import YARDSTICK_SECONDS
from ..measure.given import digest
from ..measure.result import Job, Measurement, Purpose, Status
from ..schedules.space import Candidate
from ..schedules.space_ops import population
from .effort import OpeningTrials
from .problem import Problem
from .records.data import Record, Run, Trial
from .records.database import Database
from .records.ranking import rank
from .search.rounds import Round
from .search.strategy import Result
from .watching.watch import Before

_FINAL = (
    Status.OK,
    Status.INVALID,
    Status.COMPILE_ERROR,
    Status.WRONG_RESULT,
)  # ends that another try would not change


@dataclass
class Session:
    """Everything that is written, is written here, one committed statement for each trial."""

    database: Database
    problem: Problem
    run: Run
    known: list[Record]  # of this task on this machine by this builder, before this sitting
    done: int  # search trials of this run, those before an interruption included
    fastest: float = inf  # seconds of the best searched trial on this machine
    apart: frozenset[str] = frozenset()  # runs on other inputs, whose times cannot be compared with these
    _rounds: int = -1  # of the model, written so far; -1: not looked up yet
    _start: float = field(default_factory=time.monotonic)
    _remarks: set[str] = field(default_factory=lambda: {""})

    @staticmethod
    def begin(database: Database, problem: Problem, request: dict[str, object]) -> Session:
        """Continues the run that was cut short under the same request, or begins a new one."""
        database.add_task(problem.identity)
        database.add_machine(problem.machine)
        database.add_sketches({problem.sketch(sketch) for sketch in range(len(problem.space.config_spaces))})
        show(DebugLevel.TASK, problem.title, f"task {problem.identity.key[:12]}: {problem.title}")
        run = database.begin_run(problem.identity.key, json.dumps(request, sort_keys=True))
        apart = _of_other_inputs(database, problem)
        known = database.records(problem.identity.key, machine=problem.machine.key, builder=problem.builder)
        known = [record for record in known if record.trial.run not in apart]
        fastest = min((r.seconds for r in known if r.trial.purpose is Purpose.SEARCH), default=inf)
        return Session(database, problem, run, known, run.trials, fastest, apart)

    @property
    def spent(self) -> float:
        """Seconds of work in this run, without the time that it lay interrupted."""
        return self.run.spent + time.monotonic() - self._start

    def before(self) -> Before:
        """Returns what this run had done when it was cut short."""
        searched = [r.trial.measurement for r in self.records() if r.trial.purpose is Purpose.SEARCH]
        best = min((measurement.seconds for measurement in searched), default=inf)
        failures = Counter(str(measurement.status) for measurement in searched if not measurement.ok)
        return Before(len(searched), failures, best, self.run.spent, self.fastest)

    def earlier_results(self) -> list[Result]:
        """Returns what is known already, for the strategy: it learns from these and does not propose them again."""
        searched = (r for r in self.known if r.trial.purpose is Purpose.SEARCH)
        found = ((self.problem.candidate(r.trial.sketch, r.config), r.trial.measurement) for r in searched)
        return [(candidate, measurement) for candidate, measurement in found if candidate is not None]

    def seeds(self, count: int) -> list[Candidate]:
        """The best candidates of this task by another builder or on another machine: worth a trial, no answers."""
        here = {(r.trial.sketch, r.trial.config) for r in self.known}
        foreign = [r for r in self.database.records(self.problem.identity.key) if self._elsewhere(r)]
        best = [r for r in rank(foreign) if (r.trial.sketch, r.trial.config) not in here][:count]
        return self._candidates(best)

    def _elsewhere(self, record: Record) -> bool:
        place = (record.trial.machine, record.trial.measurement.builder)
        return place != (self.problem.machine.key, self.problem.builder)

    def last(self, opening: OpeningTrials) -> list[Candidate]:
        """Returns what is measured where nothing else runs: the unscheduled nest, if that does not take too long."""
        unscheduled = self.problem.unscheduled()
        return [unscheduled] if unscheduled and self._is_affordable(unscheduled, opening.affordable) else []

    def _is_affordable(self, candidate: Candidate, seconds: float) -> bool:
        """False where one run would cost as much as very many trials: the unscheduled nest of a large program."""
        prior = self.problem.space.prior(population(candidate.sketch, [candidate], len(candidate.choices)))
        return prior is None or bool(prior[0] <= seconds)

    def job(self, candidate: Candidate, number: int, purpose: Purpose) -> Job:
        """The candidate as a job for a runner. What is clearly slower than the best may be dropped early."""
        limit = self.fastest if purpose is Purpose.SEARCH else None
        identity, space = self.problem.identity, self.problem.space
        return Job(
            number=number,
            program=identity.program,
            sketch=space.sketch_text(candidate.sketch),
            config=space.config(candidate),
            target=identity.target,
            threads=identity.threads,
            purpose=purpose,
            limit=limit,
            inputs=self.problem.inputs,
            cold=identity.in_model,
        )

    def yardstick(self) -> Candidate | None:
        """Returns what the leaders' outputs are compared with where the oracle would take too long: the unscheduled nest, if
        that does not take too long itself."""
        unscheduled = None if self.problem.checkable else self.problem.unscheduled()
        return unscheduled if unscheduled and self._is_affordable(unscheduled, YARDSTICK_SECONDS) else None

    def record(self, candidate: Candidate, measurement: Measurement, purpose: Purpose) -> Trial:
        """Writes one trial. On return it is safe."""
        sketch, config = self.problem.names(candidate)
        if not measurement.builder:  # it failed before anything was built
            measurement = replace(measurement, builder=self.problem.builder)
        trial = Trial(
            task=self.problem.identity.key,
            sketch=sketch,
            config=config,
            machine=self.problem.machine.key,
            run=self.run.id,
            purpose=purpose,
            measurement=measurement,
            created=time.time(),
            elapsed=self.spent,
        )
        self.database.add(trial)
        show(DebugLevel.TRIAL, self.problem.title, lambda: _line(sketch, config, measurement, purpose))
        if purpose is Purpose.SEARCH:
            self.done += 1
            self.fastest = min(self.fastest, measurement.seconds)
        if measurement.remark not in self._remarks:
            self._remarks.add(measurement.remark)
            warnings.warn(f"{self.problem.title}: {measurement.remark}", stacklevel=2)
        return trial

    def record_round(self, judged: Round) -> None:
        """Writes how good the strategy's model was on a batch; a continued run goes on counting."""
        if self._rounds < 0:
            self._rounds = len(self.database.rounds(self.run.id))
        self.database.add_round(self.run.id, self._rounds, replace(judged, number=self._rounds).to_json())
        self._rounds += 1

    def told(self, candidate: Candidate) -> Measurement | None:
        """Says how another search, at work on this task at the same time, has ended a candidate: that is knowledge, no trial of
        this run. None where none has, on these inputs, or where another try may end otherwise."""
        sketch, config = self.problem.names(candidate)
        found = self.database.candidate(
            self.problem.identity.key, sketch, config, machine=self.problem.machine.key, builder=self.problem.builder
        )
        if found is None or found.trial.run == self.run.id or found.trial.run in self.apart:
            return None
        return found.trial.measurement if found.trial.measurement.status in _FINAL else None

    def contenders(self, count: int, margin: float, least: int) -> list[Candidate]:
        """The best few of all that is known here: `least`, and those at most `margin` times as slow as the best."""
        ranked = rank(self._known_here())
        close = [r for n, r in enumerate(ranked[:count]) if n < least or r.seconds <= margin * ranked[0].seconds]
        return self._candidates(close)

    def leaders(self, count: int | None = None) -> list[Candidate]:
        """The candidates to be timed inside of a model, all or so many: the two that were chosen there before, then the best by
        themselves, of those that are known to be right."""
        known = self._known_here()
        before = [r for r in rank(known) if r.trial.purpose is Purpose.MODEL][:2]
        alone = rank([record for record in known if record.trial.purpose is not Purpose.MODEL])
        right = [r for r in alone if not self.problem.sampled or r.trial.purpose is Purpose.CONFIRM]
        return list(dict.fromkeys(self._candidates([*before, *right])))[:count]

    def best(self) -> Record | None:
        """The best record of the task on this machine by this builder, from any run."""
        found = rank(self._known_here())
        return found[0] if found else None

    def _known_here(self) -> list[Record]:
        """The records of the task on this machine by this builder, but for those of other inputs."""
        task, place, builder = self.problem.identity.key, self.problem.machine.key, self.problem.builder
        known = self.database.records(task, machine=place, builder=builder)
        return [record for record in known if record.trial.run not in self.apart]

    def _candidates(self, records: Sequence[Record]) -> list[Candidate]:
        """The candidates that records are of, as far as today's space has it."""
        found = (self.problem.candidate(record.trial.sketch, record.config) for record in records)
        return [candidate for candidate in found if candidate is not None]

    def measured(self) -> int:
        """Says how many configs were measured on this machine by this builder, in all runs."""
        task, place, builder = self.problem.identity.key, self.problem.machine.key, self.problem.builder
        return len(
            {(r.trial.sketch, r.trial.config) for r in self.database.records(task, machine=place, builder=builder)}
        )

    def records(self) -> Sequence[Record]:
        """All records of this run."""
        return self.database.run_records(self.run.id)

    def end(self, *, finished: bool) -> None:
        """Closes the run; an unfinished one is continued by the same request."""
        self.database.end_run(self.run.id, finished=finished, spent=self.spent)


def _of_other_inputs(database: Database, problem: Problem) -> frozenset[str]:
    """The runs of a task on other inputs than those of the problem."""
    own = digest(problem.inputs)
    found = set()
    for run in database.runs(problem.identity.key):
        request = json.loads(run.request) if run.request else {}
        if (request.get("inputs") or "") != own:
            found.add(run.id)
    return frozenset(found)


def _line(sketch: str, config: str, measurement: Measurement, purpose: Purpose) -> str:
    """A trial for people who debug: `search ok 1.234e-03 s 0a1b2c3d {...}`."""
    ended = (
        f"{measurement.seconds:.4g} s" if measurement.ok else str(measurement.failure and measurement.failure.message)
    )
    return f"{purpose} {measurement.status} {ended} {sketch[:8] or 'unscheduled'} {config}"
