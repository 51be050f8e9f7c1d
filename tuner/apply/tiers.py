"""The candidates that may serve a task, the one to try first in front: each is looked up only when those before it failed.

    exact      records of this task, by their times here, then by those of elsewhere
    near       records of the same program on near targets (targets/nearness.py) or another number of threads, nearest first
    family     records of the nearest other shapes of the same family on such targets, moved into this shape's domains
    analytic   no record: the best of a large draft by the analytic model, one of each structure; in a model by what they keep
               of constants, too (cost_model/kept.py)

Each tier asks the person's database (or log) first, then the logs shipped with the project (sources.py). A config may serve
elsewhere; a time never does. So what was not measured for this very task is compared with the analytic model's own pick, by
what that model predicts of both here: it serves unless it is clearly slower. The provenance says what was compared.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from math import inf, log
from pathlib import Path

import numpy as np

from ...codegen.backends.cpu import builder_version
from ...common.errors import DatabaseError, ScheduleError, TargetError
from ...common.outside import let_through
from ...cost_model.analytic import predict
from ...cost_model.kept import keeping_seconds, kept_bytes
from ...measure.calibrate.calibrate import known_ceilings
from ...measure.checking.verify import is_sampled
from ...measure.machine import identity_for, machine_key
from ...measure.result import Purpose
from ...schedules.sketch import UNSCHEDULED, Sketch, broken_conditions, parse_sketch
from ...schedules.space import ConfigValue
from ...schedules.task import Task
from ...targets.nearness import distance
from ...targets.target import Target, parse_target
from ...tensor.text.canonical import family_key, program_key
from ...tensor.text.parse import parse
from ..effort import UNTUNED
from ..records.claims import believed, understood
from ..records.data import Record, TaskIdentity
from ..records.database import Database
from ..records.sources import sources
from ..search.draft import best_choices
from ..task_space import TaskSpace
from ..units import time_text
from .drafted import Drafted, DraftedPick, is_kept, keep_draft, kept_draft
from .moved import moved_config, shape_distance, sizes
from .pick import Pick, Provenance

DRAFT_SEED = 0
RECORDS = 8  # of a task of the same program
FAMILY_REACH = log(64)  # a shape that is further away (`shape_distance`) says less than the analytic model
FAMILY_RECORDS = 4  # of another shape
STRUCTURES = 4  # that the analytic model offers, and those that keep less of constants than any before them
SLOWER = 2.0  # times as slow as the best: no structure that is keeps so much less
UNCONFIRMED = "its results were checked at some points only: no search has confirmed it yet"
CLEARLY = (
    1.25  # times as slow as the analytic pick by the same model: further than it errs between configs of one program
)


Failed = list[tuple[str, Exception]]  # what failed, in words, and with which error


def picks(
    task: Task,
    db: str | Path | None = None,
    *,
    strict: bool = False,
    failed: Failed | None = None,
) -> Generator[Pick]:
    """All that may serve, in order.

    strict: records of exactly this task alone. failed: takes what a tier fails with, and the next tier goes on; without it,
    that is raised. Errors: DatabaseError in any case.
    """
    model = AnalyticModel(task)
    with ExitStack() as stack:
        opened = [(stack.enter_context(Database(s.path, read_only=True)), s.log) for s in sources(db, task.target)]
        for tier in (_exact,) if strict else (_exact, _near, _family):
            for database, name in opened:
                for pick in _as_far_as(f"the tier {tier.__name__[1:]}", tier(task, database, model), failed):
                    yield replace(pick, provenance=replace(pick.provenance, log=name))
    if not strict:
        yield from _as_far_as("the rules", model.offered(), failed)


def _as_far_as(what: str, offered: Iterator[Pick], failed: Failed | None) -> Iterator[Pick]:
    """Returns what a tier offers until it fails."""
    while True:
        try:
            pick = next(offered, None)
        except DatabaseError:  # nobody's candidate is to blame
            raise
        except Exception as error:
            let_through(error)
            if failed is None:
                raise
            failed.append((what, error))
            return
        if pick is None:
            return
        yield pick


def is_draft_known(task: Task) -> bool:
    """Says whether what the analytic model drafts for a task was kept."""
    return AnalyticModel(task).is_known


def analytic_pick(task: Task) -> Pick:
    """The best of a large draft by the analytic model: no measurement, no record."""
    return AnalyticModel(task).picks()[0]


class AnalyticModel:
    """Holds what the analytic model picks for a task, worked out when it is first asked for, and what it says of records."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._ceilings = known_ceilings(task.target, task.threads)
        self._picks: list[tuple[float, Pick]] = []
        self._rest: Iterator[tuple[float, Pick]] | None = None
        self._slower: list[str] = []  # records that are not served, in words
        self._failed: list[str] = []  # structures that the draft cannot do, in words

    def picks(self) -> list[Pick]:
        """One of each structure, the best first. Errors: what the rules fail with."""
        return list(self.offered())

    def offered(self) -> Iterator[Pick]:
        """Works as `picks`, worked out when the first one is asked for."""
        for _, pick in self._own():
            note = "; ".join([*self._slower[:1], *self._failed[:1]])
            yield pick.noting(note) if note else pick

    def weighed(self, pick: Pick, seconds: float | None = None) -> Pick | None:
        """A record's candidate with a note of what was compared, or None where it is predicted clearly slower than the analytic
        pick. `seconds`: as predicted for it, if that is known. Where the rules fail there is nothing to compare with."""
        try:
            least = next(self._own())[0]
        except Exception as error:  # the record may do without what failed; if it does not, the analytic tier says why
            let_through(error)
            return pick
        try:
            own = self._predicted(pick) if seconds is None else seconds
        except Exception as error:  # what the record asks for is beyond the model; whether it can be built is seen then
            let_through(error)
            return None
        said = f"predicted {time_text(own)} here, the analytic pick {time_text(least)}"
        if own <= CLEARLY * least:
            return pick.noting(said)
        self._slower.append(f"record {pick.provenance.record} is not served: {pick.provenance.note}; {said}")
        return None

    @property
    def is_known(self) -> bool:
        """Says whether it takes no draft to say what the model picks."""
        return is_kept(self._task, self._ceilings)

    def _own(self) -> Iterator[tuple[float, Pick]]:
        """Returns what the model picks with its predicted seconds, the best first; each is read when it is asked for."""
        if self._rest is None:
            self._rest = self._read()
        yield from tuple(self._picks)
        for one in self._rest:
            self._picks.append(one)
            yield one

    def _read(self) -> Iterator[tuple[float, Pick]]:
        kept = kept_draft(self._task, self._ceilings)
        if kept is None:
            kept = Drafted.of(self._structures(self._drafted()))
            if not self._failed:  # which may go better the next time
                keep_draft(self._task, self._ceilings, kept)
        if self._task.in_model:
            kept = kept.in_order_of(lambda seconds, kept: seconds + keeping_seconds(kept, self._ceilings))
        for number, (seconds, _, sketch, config) in enumerate(kept.read()):
            if sketch.steps or number == 0:  # the unscheduled nest comes last of all, with a warning
                yield seconds, Pick(sketch, config, Provenance("analytic", None, sketch.title, config, None))

    def _structures(self, drafted: Sequence[tuple[float, Sketch, dict[str, ConfigValue]]]) -> Iterator[DraftedPick]:
        """Returns those of a draft that may serve, with what they keep of constants."""
        least: float = inf
        for number, (seconds, sketch, config) in enumerate(drafted):
            if number >= STRUCTURES and seconds > SLOWER * drafted[0][0]:
                return
            kept = kept_bytes(sketch.apply(self._task.body, self._task.target, config))
            if number < STRUCTURES or kept < least:
                yield seconds, kept, sketch, config
            least = min(least, kept)

    def _drafted(self) -> list[tuple[float, Sketch, dict[str, ConfigValue]]]:
        """The best of each structure, the best of all first; structures that fail in a draft cost themselves alone."""
        sketches = self._task.sketches
        try:
            return self._best_of(sketches)
        except Exception as error:
            let_through(error)
            found = []
            for sketch in sketches:
                try:
                    found += self._best_of((sketch,))
                except Exception as its_own:
                    let_through(its_own)
                    self._failed.append(f"{sketch.title} failed in the draft: {type(its_own).__name__}: {its_own}")
            if not any(sketch.steps for _, sketch, _ in found):
                raise error
            return sorted(found, key=lambda one: one[0])

    def _best_of(self, sketches: Sequence[Sketch]) -> list[tuple[float, Sketch, dict[str, ConfigValue]]]:
        space = TaskSpace(self._task, self._ceilings, sketches)
        found = best_choices(space, np.random.default_rng(DRAFT_SEED), UNTUNED)
        return [(seconds, space.sketches[best.sketch], space.config(best)) for seconds, best in found]

    def _predicted(self, pick: Pick) -> float:
        task = self._task
        tree = pick.sketch.apply(task.body, task.target, pick.config)
        return float(predict(tree, task.target, task.threads, self._ceilings, 1)[0])


def _exact(task: Task, database: Database, model: AnalyticModel) -> Iterator[Pick]:
    """The task's best records: of this machine and this version's builder, then of this machine, then of any."""
    here, builder = machine_key(identity_for(task.target)), builder_version()
    sampled = is_sampled(task.program)
    seen: set[int] = set()
    for machine, built_by in ((here, builder), (here, None), (None, None)):
        for record in database.best(task.key, RECORDS, machine=machine, builder=built_by):
            comparable = built_by is not None
            note = "" if comparable else f"measured elsewhere or by another version: {record.trial.measurement.builder}"
            found = None if record.id in seen else _from_record(task, database, record, "exact", note, timed=comparable)
            seen.add(record.id)
            if found is not None:
                unconfirmed = sampled and record.trial.purpose is Purpose.SEARCH
                yield found.noting(UNCONFIRMED) if unconfirmed else found


def _near(task: Task, database: Database, model: AnalyticModel) -> Iterator[Pick]:
    """The best records of near tasks of this program. Times are compared inside of a task, never between two."""
    others = [(_farness(task, one), one) for one in _servable(task, database.program_tasks(program_key(task.program)))]
    for _, other in sorted(others, key=lambda entry: entry[0]):
        alike = (other.target, other.threads) == (task.target.text, task.threads)
        for record in database.best(other.key, RECORDS):
            found = _from_record(task, database, record, "near", _tuned_for(other, task))
            found = model.weighed(found) if found is not None and not alike else found
            if found is not None:
                yield found


def _family(task: Task, database: Database, model: AnalyticModel) -> Iterator[Pick]:
    """The best configs of the nearest shapes, moved; of each shape the one first that the analytic model predicts best."""
    others = []
    for one in _servable(task, database.family_tasks(family_key(task.program))):
        program = parse(one.program)
        others.append(((shape_distance(task.program, program), *_farness(task, one)), one, program))
    for (apart, *_), other, program in sorted(others, key=lambda entry: entry[0]):
        if apart > FAMILY_REACH:
            break
        found: list[tuple[float, Pick]] = []
        for record in database.best(other.key, FAMILY_RECORDS):
            sketch = _stored_sketch(task, database, record.trial.sketch)
            moved = None if sketch is None else moved_config(task, sketch, record.config)
            if sketch is not None and moved is not None:
                note = f"from {', '.join(sizes(program))}, {_tuned_for(other, task)}"
                where = Provenance("family", record.id, sketch.title, moved[0], None, note)
                found.append((moved[1], Pick(sketch, moved[0], where)))
        for seconds, pick in sorted(found, key=lambda entry: entry[0]):
            weighed = model.weighed(pick, seconds)
            if weighed is not None:
                yield weighed


def _servable(task: Task, others: Sequence[TaskIdentity]) -> list[TaskIdentity]:
    """The other tasks whose schedules may serve this one."""
    known = (one for one in understood(others) if one.key != task.key)
    return [one for one in known if _apart(task.target, one.target) is not None]


def _farness(task: Task, other: TaskIdentity) -> tuple[float, float, bool, bool, str]:
    """Orders tasks by target, then by the number of threads, then by the accuracy, then by where they are called."""
    apart = _apart(task.target, other.target)
    assert apart is not None
    return (
        apart,
        abs(log(other.threads / task.threads)),
        other.accuracy != task.accuracy,
        other.in_model != task.in_model,
        other.key,
    )


@lru_cache(maxsize=256)
def _apart(target: Target, text: str) -> float | None:
    """The distance of targets, one of them as stored; None for what this version does not know."""
    try:
        return distance(target, parse_target(text))
    except TargetError:
        return None


def _tuned_for(other: TaskIdentity, task: Task) -> str:
    place = "" if other.in_model == task.in_model else ", in a model" if other.in_model else ", by itself"
    return f"tuned for {other.target.partition(';')[0]}, threads={other.threads}{place}"


def _from_record(
    task: Task, database: Database, record: Record, tier: str, note: str = "", *, timed: bool = False
) -> Pick | None:
    """A record's candidate, if it is valid for the task. `timed`: its time holds for what is compiled here and now.

    Whatever a record leads to costs that record alone: it may come from anybody.
    """
    try:
        sketch = _stored_sketch(task, database, record.trial.sketch)
        if sketch is None or not _is_possible(database, record):
            return None
        if broken_conditions(sketch.apply(task.body, task.target, record.config)):
            return None
    except Exception as error:
        let_through(error)
        return None
    seconds = record.seconds if timed else None
    return Pick(sketch, record.config, Provenance(tier, record.id, sketch.title, record.config, seconds, note))


def _is_possible(database: Database, record: Record) -> bool:
    """Says whether the machine of a record can have been so fast."""
    of, machine = database.task(record.trial.task), database.machine(record.trial.machine)
    return of is not None and machine is not None and believed(record.trial.measurement, of, machine).ok


def _stored_sketch(task: Task, database: Database, key: str) -> Sketch | None:
    """The sketch of a record; None where it is not known, or does more than the task's accuracy allows."""
    if not key:
        return UNSCHEDULED
    stored = database.sketch(key)
    if stored is None:
        return None
    try:
        sketch = parse_sketch(stored.text) if stored.text else UNSCHEDULED
    except ScheduleError:  # a text that this version does not understand
        return None
    return sketch if sketch.keeps(task.accuracy) else None
