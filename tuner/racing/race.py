"""The last word on the kernels of a model: their best candidates are timed inside of it.

A trial times a kernel alone, with all but its constants in the caches. In a model its inputs lie where other kernels left them,
its outputs and its workspace are cold, and what is left of its constants depends on all others. So what leads by trials need
not lead there: of resnet50, tuned for a minute, the candidates with the best trials took 20.8 ms together, those that
were the fastest inside of the model 19.8 (two threads of a Granite Rapids; without any record 21.6).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...common.errors import TilesmithError
from ...graph.model import Model
from ...measure.local import LocalRunner
from ...measure.process.child import Child, child_setup
from ...measure.process.environment import timer_environment
from ...measure.process.station import answer_of
from ...measure.requests import default_limits
from ...measure.result import Measurement, Purpose, Runner, Status
from ...schedules.sketch import parse_sketch
from ...schedules.space import Candidate
from ...schedules.task import Task
from ..kernels import Kernels
from ..scheduler import NUMBERS, TaskLane
from ..watching.watch import RaceWatcher
from .racer import Chosen, Race, Racer, Report, SketchConfig

MOST = 6  # candidates of a kernel beside the analytic model's
BUILT = 300  # candidates of all kernels


@dataclass(frozen=True, slots=True)
class ModelRace:
    """A model whose kernels are tasks of a search."""

    model: Model
    tasks: Sequence[Task]

    def run(self, lanes: Sequence[TaskLane], runner: Runner) -> None:
        """Times the leaders of all kernels inside of the model, and records which are the best there. Where that cannot be
        done, as on a cluster, all stays as the trials say."""
        if not isinstance(runner, LocalRunner):
            return
        first = self.tasks[0]
        by_key = {lane.session.problem.identity.key: lane for lane in lanes}
        own = {task.key: by_key[task.key] for task in self.tasks}
        count = max(min(BUILT // len(self.tasks), MOST), 1)
        candidates = {key: [_described(lane, one) for one in lane.session.leaders(count)] for key, lane in own.items()}
        race = Race("", first.target.text, first.threads, first.accuracy, candidates)
        watcher = own[first.key].watcher
        report = watcher.racing if isinstance(watcher, RaceWatcher) else None
        answer = _answer(self.model, race, report)
        if isinstance(answer, str):
            warnings.warn(f"the kernels of {self.model.name} were not timed inside of it: {answer}", stacklevel=3)
            return
        for key, chosen in answer.items():
            _record(own[key], chosen, runner)


def races_of(given: Sequence[object], kernels: Sequence[Kernels | None]) -> list[ModelRace]:
    """The models of several kernels among what a search was given."""
    return [
        ModelRace(model, own.tasks)
        for model, own in zip(given, kernels, strict=True)
        if isinstance(model, Model) and own is not None
    ]


def _described(lane: TaskLane, candidate: Candidate) -> SketchConfig:
    space = lane.session.problem.space
    return space.sketch_text(candidate.sketch), space.config(candidate)


def _record(lane: TaskLane, chosen: Chosen, runner: Runner) -> None:
    """Writes the choice for a kernel. What the analytic model picks may have had no trial: then it counts if it is right."""
    session = lane.session
    candidate = session.problem.candidate(parse_sketch(chosen.sketch).key if chosen.sketch else "", chosen.config)
    if candidate is not None and (candidate in session.leaders() or _is_right(lane, candidate, runner)):
        session.record(candidate, Measurement(Status.OK, chosen.times, builder=session.problem.builder), Purpose.MODEL)


def _is_right(lane: TaskLane, candidate: Candidate, runner: Runner) -> bool:
    """Checks a candidate as a confirmation does."""
    ((_, measurement),) = runner.confirm([lane.session.job(candidate, next(NUMBERS), Purpose.CONFIRM)])
    lane.session.record(candidate, measurement, Purpose.CONFIRM)
    return measurement.ok


def _answer(model: Model, race: Race, report: Report | None) -> dict[str, Chosen] | str:
    """The choice of a child: what a kernel does there is no harm here. `race`: all but where the model is saved."""
    handler = f"{Racer.__module__}:{Racer.__qualname__}"
    with TemporaryDirectory(prefix="tilesmith-race-") as folder:
        place = Path(folder) / "model"
        try:
            model.save(place)
        except (OSError, TilesmithError) as error:
            return f"it could not be saved: {error}"
        child = Child(child_setup(handler, {}, default_limits().run_memory), timer_environment(race.threads))
        try:
            child.send(replace(race, model=str(place)))
            answer = answer_of(child, None if report is None else lambda stage: report(stage.name, stage.item))
            return child.ending().message if answer is None else answer.value
        finally:
            child.close()
