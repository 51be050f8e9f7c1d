"""The search: ask, measure, record, tell. Read this first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count as numbers
from pathlib import Path

from ..common.errors import ArgumentError
from ..measure.result import Purpose, Runner
from ..schedules.schedule import Template
from ..schedules.space import Candidate
from ..schedules.task import Task
from ..targets.host import thread_count
from ..targets.target import Target, parse_target
from ..tensor.program import Program
from .budget import Budget, Effort, effort_named
from .database import open_database
from .failures import search_failed
from .outcome import Spent, TaskResult, TuneResult
from .problem import problem_of
from .runners import check_runner, place_for
from .search.strategy import Strategy, make_strategy
from .session import Session
from .stopwatch import Stopwatch
from .task_space import TaskSpace
from .watch import Watcher, watcher_of

NUMBERS = numbers()  # of jobs: unlike in one process, so that nobody mistakes an answer to a search that was dropped


def tune(
    program: Program | Sequence[Program],
    *,
    target: str | Target = "host",
    trials: int | None = None,
    seconds: float | None = None,
    threads: int | None = None,
    strategy: str = "guided",
    runner: str | Runner = "local",
    db: str | Path | None = None,
    seed: int = 0,
    progress: bool | Watcher = True,
    effort: str = "normal",
    template: Template | None = None,
) -> TuneResult:
    """Searches for the fastest kernel of a program; whatever is measured goes into the database, where `compile` looks.

    Args:
        program: one, or several that share the budget evenly.
        trials: new measurements to make. A run that was cut short is continued to its number by the same call; after a
            finished one a new run begins that skips what is known.
        seconds: wall time after which no trial begins. With both the first limit ends it; without either the effort's.
        threads: of the kernels; default: all cores of the target.
        runner: "local", "ray" (on this machine), "ray://host:port", a file with an address, or a Runner (it stays open).
        db: the database; default: the settings'.
        template: searches the sketches of this function instead of those that the rules derive (docs/templates.md).

    Ctrl-C ends it with the best so far; nothing that was measured is lost.

    Raises:
        BudgetError, ArgumentError, TargetError, TemplateError, DatabaseError, MissingExtra: before anything is measured.
        SearchFailed: all candidates of a task failed.
    """
    preset = effort_named(effort)
    programs = [program] if isinstance(program, Program | str) else list(program)
    if not programs:
        raise ArgumentError("there is nothing to tune", expected="at least one program")
    budget = Budget.of(trials, seconds, preset).share(len(programs))
    request: dict[str, object] = {
        "trials": trials, "seconds": seconds, "strategy": strategy, "seed": seed, "effort": effort,
        "template": None if template is None else template.__name__,
    }  # fmt: skip
    resolved = parse_target(target) if isinstance(target, str) else target
    check_runner(resolved, runner)
    count = thread_count(threads, resolved)
    tasks = [Task.of(one, resolved, count) for one in programs]
    spaces = [task.sketches if template is None else task.sketches_of(template) for task in tasks]
    results: list[TaskResult] = []
    with open_database(db) as database, place_for(resolved, count, runner) as place:
        for one, task, sketches in zip(programs, tasks, spaces, strict=True):
            space = TaskSpace(task, place.ceilings, sketches)
            problem = problem_of(one, space, place.machine)
            chooser = make_strategy(strategy, space, seed, preset)
            session = Session.begin(database, problem, request)
            results.append(search(session, chooser, place.runner, budget, watcher_of(progress), preset))
            if results[-1].interrupted:
                break
    return TuneResult(tuple(results))


def search(
    session: Session, strategy: Strategy, runner: Runner, budget: Budget, watcher: Watcher, effort: Effort
) -> TaskResult:
    """Runs one session to its end: explore, then compare the leaders. Raises SearchFailed when nothing has ever run."""
    problem, thinking, finished, interrupted = session.problem, Stopwatch(), False, False
    watcher.begin(problem.title, problem.work, problem.ceilings, budget, session.done)
    try:
        explore(session, strategy, runner, budget, watcher, thinking)
        confirm(session, runner, effort)
        finished = True
    except KeyboardInterrupt:  # what is in flight is dropped; all that came home is in the database
        interrupted = True
    finally:
        session.end(finished=finished)
        watcher.end()
    best, records = session.best(), session.records()
    if best is None and not interrupted:
        raise search_failed(problem.title, records, session.database.path)
    return TaskResult(problem.identity, best, records, Spent.on(records, session.spent, thinking.seconds), interrupted)


def explore(
    session: Session, strategy: Strategy, runner: Runner, budget: Budget, watcher: Watcher, thinking: Stopwatch
) -> None:
    """Asks, measures, records, tells, until the budget is used up or the space is exhausted."""
    with thinking:
        strategy.tell(session.earlier_results())
    first = session.first()  # the unscheduled nest, and what was good elsewhere
    flying, more = dict[int, Candidate](), True
    while more or flying:
        more = more and not budget.over(session.done + len(flying), session.spent)
        room = min(runner.capacity - len(flying), budget.trials_left(session.done + len(flying)))
        if more and room > 0:
            with thinking:
                asked = first[:room] or strategy.ask(room)
            first, more = first[room:], bool(asked)
            for candidate in asked:
                if candidate not in flying.values():
                    job = session.job(candidate, next(NUMBERS), Purpose.SEARCH)
                    flying[job.number] = candidate
                    runner.submit(job)
        home = [(flying.pop(n), m) for n, m in runner.collect(budget.patience(session.spent)) if n in flying]
        for candidate, measurement in home:
            session.record(candidate, measurement, Purpose.SEARCH)
            watcher.trial(measurement)
        with thinking:
            strategy.tell(home)
        if not home and budget.patience(session.spent) == 0:
            return  # the time is over, and what is still in flight had its grace


def confirm(session: Session, runner: Runner, effort: Effort) -> None:
    """Measures the leaders again, side by side: the winner is the best of these."""
    contenders = session.contenders(effort.confirm, effort.margin)
    if len(contenders) > 1:
        jobs = [session.job(candidate, next(NUMBERS), Purpose.CONFIRM) for candidate in contenders]
        for candidate, (_, measurement) in zip(contenders, runner.confirm(jobs), strict=True):
            session.record(candidate, measurement, Purpose.CONFIRM)
