"""The search: ask, measure, record, tell. Read this first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.blas import ONE_THREAD
from ..common.errors import ArgumentError, TemplateError
from ..common.garbage import COLLECTED_RARELY
from ..graph.model import Model
from ..measure.given import digest
from ..measure.result import Purpose, Runner
from ..schedules.schedule import Template
from ..schedules.sketch import Sketch
from ..schedules.space import Candidate
from ..schedules.task import Task
from ..targets.host import thread_count
from ..targets.target import Target, target_of
from ..tensor.accuracy import Accuracy, accuracy_named
from ..tensor.program import Program
from .budget import Budget
from .callbacks.callback import Callback, Callbacks, Heard
from .effort import Effort, effort_named
from .failures import search_failed
from .inputs import packed_inputs
from .kernels import tuned_tasks
from .models.tasks import place_of
from .outcome import TuneResult
from .packages import check_packages
from .problem import problem_of
from .racing.race import ModelRace, races_of
from .records.database import open_database
from .runners import check_runner, place_for
from .scheduler import (
    NUMBERS,
    TaskLane,
    TaskScheduler,
    check_different,
    checked_weights,
    results_of,
    tell_watchers,
    workers_of,
)
from .search.strategy import MODEL_BASED
from .session import Session
from .task_space import TaskSpace
from .thinking.place import thinking_for
from .transfer import Experience, experience
from .watching.watch import Sitting, Watcher, Whole
from .watching.watchers import watchers_of


def tune(
    program: Program | Model | Sequence[Program | Model],
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
    effort: str | Effort = "normal",
    template: Template | None = None,
    weights: Sequence[float] | None = None,
    accuracy: Accuracy = "default",
    inputs: Mapping[str, object] | None = None,
    callbacks: Sequence[Callback] = (),
    on_trial: Heard | None = None,
    on_best: Heard | None = None,
) -> TuneResult:
    """Searches for the fastest kernel of a program; whatever is measured goes into the database, where `compile` looks.

    Args:
        program: one, or several that share the budget: trials go where they are expected to save most (scheduler.py). One
            that is cut into several kernels (kernels.py) is as many programs.
        trials: new measurements to make. A run that was cut short is continued to its number by the same call; after a
            finished one a new run begins that skips what is known.
        seconds: wall time after which no trial begins. With both the first limit ends it; without either the effort's.
        threads: of the kernels; default: all cores of the target.
        runner: "local", "ray" (on this machine), "ray://host:port", a file with an address, or a Runner (it stays open).
        db: the database; default: the settings'.
        effort: a preset by name, or numbers of your own (effort.py).
        template: searches the sketches of this function instead of those that the rules derive (docs/templates.md).
        weights: of several programs: how often each is needed.
        accuracy: "strict" searches only kernels that do the program's sums in another order, and change nothing else of its
            arithmetic (docs/accuracy.md). Records of both kinds are kept apart.
        inputs: arrays for the trials by the names of the program's inputs and constants, where drawn ones would not tell how
            fast it is; what is missing is drawn. Only of one program.

        callbacks: hear of each trial (`tilesmith.callbacks`): CSV, TensorBoard, MLflow, or your own.
        on_trial, on_best: functions of a `TrialEvent`, called for each trial, and for each that is faster than all before.
            What raises is told once, and not called again; the search goes on.

    Ctrl-C ends it with the best so far; nothing that was measured is lost.

    Raises:
        BudgetError, ArgumentError, TargetError, TemplateError, DatabaseError, MissingExtra: before anything is measured.
        SearchFailed: all candidates that were tried failed.
    """
    preset, told = effort_named(effort), Callbacks.of(callbacks, on_trial, on_best)
    _check(seed, template)

    def sketches_of(task: Task) -> Sequence[Sketch]:
        return task.sketches if template is None else task.sketches_of(template)

    several = _several(program)
    programs = [one.program if isinstance(one, Model) else one for one in several]
    if (template is not None or inputs) and any(isinstance(one, Model) for one in several):
        raise ArgumentError("a template and inputs are of one kernel", found="a model, which is cut into several")
    budget, shares = Budget.of(trials, seconds, preset), checked_weights(weights, len(programs))
    if strategy in MODEL_BASED:
        check_packages(strategy)
    resolved = target_of(target)
    check_runner(resolved, runner)
    count, kept = thread_count(threads, resolved), accuracy_named(accuracy)
    wanted = tuned_tasks(programs, shares, resolved, count, kept, whole=template is not None or bool(inputs))
    programs, tasks, shares = map(list, zip(*((one.program, one.task, one.count) for one in wanted.tasks), strict=True))
    check_different(tasks)
    spaces = [sketches_of(task) for task in tasks]
    request: dict[str, object] = {
        "trials": _plain(trials), "seconds": _plain(seconds), "strategy": strategy, "seed": seed, "effort": preset.name,
        "template": None if template is None else template.__name__,
    }  # fmt: skip
    if accuracy != "default":
        request["accuracy"] = accuracy
    given = packed_inputs(programs[0], inputs) if len(programs) == 1 else b""
    if inputs and len(programs) > 1:
        raise ArgumentError(
            "inputs were given for several programs", advice="tune the program that they are of by itself"
        )
    if given:
        request["inputs"] = digest(given)
    if len(tasks) > 1:
        request |= {"together": sorted(task.key for task in tasks), "weights": shares}
    whole = _whole(several, programs, shares)
    watchers = watchers_of(progress, len(programs), whole)
    lanes: list[TaskLane] = []
    with (
        open_database(db) as database,
        place_for(resolved, count, runner) as place,
        thinking_for(place.runner) as thinking,
        COLLECTED_RARELY,
        ONE_THREAD,
    ):
        for one, task, sketches, weight, watcher in zip(programs, tasks, spaces, shares, watchers, strict=True):
            space = TaskSpace(task, place.ceilings, sketches, ragged=preset.parts.ragged)
            problem = problem_of(one, space, place.machine, given)
            session = Session.begin(database, problem, request)
            uses = strategy in MODEL_BASED  # the others are yardsticks
            known = experience(task, problem, database, sketches_of, preset.transfer) if uses else Experience()
            chooser = thinking.strategy(strategy, space, seed, preset, known.samples)
            lanes.append(TaskLane(session, chooser, watcher, weight, known.seeds, told))
        tell_watchers(lanes, place.runner, budget, whole)
        return search(lanes, place.runner, budget, preset, races_of(several, wanted.kernels))


def _check(seed: object, template: object) -> None:
    """Errors: ArgumentError, TemplateError."""
    if not isinstance(seed, int) or seed < 0:
        raise ArgumentError("a seed is a whole number from 0", found=repr(seed))
    if template is not None and not callable(template):
        raise TemplateError("a template is a function", expected="one that takes a schedule", found=repr(template)[:80])


def _several(given: Any) -> list[Any]:
    """Returns what a person wants tuned, as a list; what is no program is found later."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def _plain(number: float | None) -> float | None:
    """A number of Python's own, as JSON has it."""
    return getattr(number, "item", lambda: number)()


def _whole(given: Sequence[Program | Model], kernels: Sequence[Program], counts: Sequence[float]) -> Whole | None:
    """Returns what the kernels are together, where they are what given programs were cut into."""
    if len(kernels) <= 1 or all(isinstance(one, Program) and any(one is kernel for kernel in kernels) for one in given):
        return None
    names = dict.fromkeys(one.name for one in given if isinstance(one, Model))
    return Whole(", ".join(names) or "the program", counts, [place_of(kernel) for kernel in kernels])


def search(
    lanes: Sequence[TaskLane], runner: Runner, budget: Budget, effort: Effort, races: Sequence[ModelRace] = ()
) -> TuneResult:
    """Runs sessions to their end: explore, then compare the leaders of each, at last inside of the models that they are kernels
    of. Raises SearchFailed when all candidates failed."""
    finished = interrupted = False
    for lane in lanes:
        problem = lane.session.problem
        lane.watcher.begin(
            Sitting(
                problem.title, problem.work, problem.ceilings, budget, lane.session.before(), problem.identity.key,
                workers_of(runner),
            )
        )  # fmt: skip
    try:
        explore(lanes, runner, budget, effort)
        for lane in lanes:
            lane.finish()
            lane.confirm(runner, effort)
        for race in races:
            race.run(lanes, runner)
        finished = True
    except KeyboardInterrupt:  # what is in flight is dropped; all that came home is in the database
        interrupted = True
    finally:
        for lane in lanes:
            lane.session.end(finished=finished)
            lane.watcher.end()
            lane.callbacks.close()
    results = results_of(lanes, interrupted=interrupted)
    # time may be over before a candidate is measured
    tried = next(((lane.session, task) for lane, task in zip(lanes, results, strict=True) if task.records), None)
    if tried and all(task.best is None for task in results) and not interrupted:
        session, task = tried
        raise search_failed(session.problem.title, task.records, session.database.path)
    return TuneResult(results)


def explore(lanes: Sequence[TaskLane], runner: Runner, budget: Budget, effort: Effort) -> None:
    """Asks, measures, records, tells, until the budget is used up or the spaces are exhausted."""
    schedule = TaskScheduler(lanes, effort.sharing.within(budget.trials, len(lanes)))
    for lane in lanes:
        lane.begin(effort.opening)
        if not budget.over(sum(one.session.done for one in lanes), lane.session.spent):
            lane.go_on(runner, effort.opening)
    flying, more = dict[int, tuple[TaskLane, Candidate]](), True
    while more or flying:
        done, spent = sum(lane.session.done for lane in lanes), max(lane.session.spent for lane in lanes)
        more = more and not budget.over(done + len(flying), spent)
        room = min(runner.capacity - len(flying), budget.trials_left(done + len(flying)))
        while more and room > 0:
            asked = schedule.ask(room)
            more = bool(asked)
            room -= len(asked)
            for lane, candidate in asked:
                told = lane.session.told(candidate)
                if told is not None:
                    lane.hear(candidate, told)
                elif (lane, candidate) not in flying.values():
                    job = lane.session.job(candidate, next(NUMBERS), Purpose.SEARCH)
                    flying[job.number] = (lane, candidate)
                    runner.submit(job)
            if not any(lane.opening for lane, _ in asked):
                break  # else the strategy begins to think while the first ones are built and timed
        for lane in lanes:
            lane.prepare()
        home = [(*flying.pop(n), m) for n, m in runner.collect(budget.patience(spent)) if n in flying]
        for lane, candidate, measurement in home:
            lane.record(candidate, measurement)
        for lane in dict.fromkeys(lane for lane, _, _ in home):
            lane.tell([(candidate, measurement) for owner, candidate, measurement in home if owner is lane])
        if not home and budget.patience(spent) == 0:
            return  # the time is over, and what is still in flight had its grace
