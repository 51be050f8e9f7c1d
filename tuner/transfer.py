"""What trials of other tasks are worth for a new one.

    seeds      the best configs of the nearest shapes of the same family, moved into this task's domains: measured first
    samples    the trials of these and of other programs on the same target: they train the model before the first trial

A config may serve elsewhere; a time never does: the model learns what was better or worse than the analytic model said,
within each task. Times of other machines or of an older builder train nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from ..common.errors import ScheduleError, TilesmithError
from ..cost_model.learned.model import Samples
from ..measure.result import Purpose, Status
from ..schedules.sketch import Sketch, parse_sketch
from ..schedules.space import Candidate
from ..schedules.space_ops import group
from ..schedules.task import Task
from ..tensor.text.parse import parse
from .apply.moved import moved_config, shape_distance
from .effort import Transfer
from .problem import Problem, problem_of
from .records.claims import understood
from .records.data import Record, TaskIdentity
from .records.database import Database
from .search.pool import described, prior_of
from .task_space import TaskSpace

SketchesOf = Callable[[Task], Sequence[Sketch]]


@dataclass(frozen=True, slots=True)
class Experience:
    """Holds what is known from elsewhere: candidates worth a trial, the most promising first, and samples to learn from."""

    seeds: tuple[Candidate, ...] = ()
    samples: tuple[Samples, ...] = ()


def experience(
    task: Task, problem: Problem, database: Database, sketches_of: SketchesOf, settings: Transfer
) -> Experience:
    """All that other tasks in the database have for this one; nothing where there are none."""
    relatives = _relatives(task, problem.identity, database, settings)
    others = _others(problem.identity, relatives, database, settings)
    samples = [_samples(task, problem, one, number, database, sketches_of, settings)
               for number, one in enumerate([*relatives, *others], 1)]  # fmt: skip
    return Experience(
        tuple(_seeds(task, problem, relatives, database, settings)), tuple(s for s in samples if s is not None)
    )


def _relatives(task: Task, own: TaskIdentity, database: Database, settings: Transfer) -> list[TaskIdentity]:
    """The nearest other shapes of the family, on the same target and with as many threads."""
    near = [
        (shape_distance(task.program, parse(one.program)), one.key, one)
        for one in understood(database.family_tasks(own.family_key))
        if one.key != own.key and (one.target_key, one.threads) == (own.target_key, own.threads)
    ]
    return [one for distance, _, one in sorted(near)[: settings.shapes] if distance <= log(settings.reach)]


def _others(
    own: TaskIdentity, relatives: Sequence[TaskIdentity], database: Database, settings: Transfer
) -> list[TaskIdentity]:
    """The last few tasks of other families on the same target."""
    taken = {own.key, *(one.key for one in relatives)}
    same = (
        one for one in understood(database.tasks())
        if one.key not in taken and (one.target_key, one.threads) == (own.target_key, own.threads)
        and one.family_key != own.family_key
    )  # fmt: skip
    return [one for one, _ in zip(same, range(settings.others), strict=False)]


def _seeds(
    task: Task, problem: Problem, relatives: Sequence[TaskIdentity], database: Database, settings: Transfer
) -> list[Candidate]:
    """The moved configs, a round of each shape's best before the second best; within a round by the prior."""
    ranked: list[tuple[int, float, Candidate]] = []
    for one in relatives:
        for place, record in enumerate(database.best(one.key, settings.records)):
            stored = database.sketch(record.trial.sketch)
            if stored is None or not stored.text:
                continue
            try:
                moved = moved_config(task, parse_sketch(stored.text), record.config)
            except ScheduleError:  # a text that this version does not understand
                continue
            candidate = problem.candidate(record.trial.sketch, moved[0]) if moved else None
            if moved is not None and candidate is not None:
                ranked.append((place, moved[1], candidate))
    ranked.sort(key=lambda entry: entry[:2])
    return list(dict.fromkeys(candidate for _, _, candidate in ranked))[: settings.seeds]


def _samples(
    task: Task,
    problem: Problem,
    one: TaskIdentity,
    number: int,
    database: Database,
    sketches_of: SketchesOf,
    settings: Transfer,
) -> Samples | None:
    """Another task's trials on this machine by this builder, described as the space of `problem` describes its own."""
    ended = database.records(one.key, machine=problem.machine.key, builder=problem.builder, purpose=Purpose.SEARCH)
    found = [record for record in ended if record.trial.measurement.status is not Status.UNSTABLE]
    if not found:
        return None
    try:
        program = parse(one.program)
        other = Task.of(program, task.target, one.threads, one.accuracy, in_model=one.in_model)
        space = TaskSpace(other, problem.ceilings, sketches_of(other))
        theirs = replace(problem_of(program, space, problem.machine), builder=problem.builder)
    except TilesmithError:  # what a template of a person's own refuses, or this version no longer accepts
        return None
    pairs = [(theirs.candidate(r.trial.sketch, r.config), r) for r in _thinned(found, settings.rows)]
    known = [(candidate, record) for candidate, record in pairs if candidate is not None]
    parts = []
    for rows, members in group(space, [candidate for candidate, _ in known]):
        count = len(rows)
        parts.append(
            Samples(
                described(space, members, like=problem.space),
                prior_of(space, members),
                np.array([known[int(row)][1].seconds for row in rows], dtype=np.float64),
                np.full(count, -number, dtype=np.int64),
                np.full(count, number, dtype=np.int64),
            )
        )
    return Samples.joined(parts) if parts else None


def _thinned(records: list[Record], limit: int) -> list[Record]:
    """Chooses at most `limit`: all ranks alike, the failed ones among them."""
    ranked = sorted(records, key=lambda record: record.seconds)
    return ranked[:: max(-(-len(ranked) // limit), 1)]
