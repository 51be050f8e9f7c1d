"""Why the kernel of a record is as fast as it is, in words: its roof, what the model thinks binds it, what alternatives lost,
and which options nobody has tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...common.cached import cached_property
from ...common.errors import ScheduleError
from ...cost_model.analytic import clock_of, memory_seconds, predict, resources
from ...cost_model.cpu.analysis import analyse
from ...measure.result import Status
from ...schedules.loops import LoopTree
from ...schedules.sketch import Sketch, valid
from ...schedules.space import ConfigValue
from ...schedules.task import Task
from ...targets.ceilings import Ceilings
from ...targets.target import parse_target
from ...tensor.text.parse import parse
from ..records.claims import ceilings_of
from ..records.data import Record, TaskIdentity
from ..records.database import Database
from ..records.ranking import rank
from ..roofline import program_work
from ..units import time_text
from .named.known import record_sketch
from .report import sketch_title

RESOURCES = ("arithmetic", "loads", "stores", "taking in instructions", "chains of additions", "the matrix unit")
_OTHERS, _NAMED = 3, 6  # schedules that are compared, things that are listed
_CLOSE, _FAR = 1.05, 1.25  # factors from which on something differs, and from which on it differs a lot

Busy = Mapping[str, float]  # what is busy -> seconds, all cores together


def busy_parts(tree: LoopTree, task: Task, ceilings: Ceilings) -> Busy:
    """Returns how long the analytic model sees each part of the cores at work, and each way between caches."""
    if task.target.is_gpu:
        return {}
    analysis = analyse(tree, task.target, task.threads)
    clock = clock_of(task.target, ceilings) * task.threads
    found: dict[str, float] = {}
    for nest in analysis.nests:
        for _, work in nest.work:
            for name, cycles in zip(RESOURCES, resources(work, task.target), strict=True):
                found[name] = found.get(name, 0.0) + float(cycles) / clock
        moved = memory_seconds(nest, analysis, task.target, task.threads, ceilings)
        for level, seconds in enumerate(moved, 1):
            name = f"moving data into L{level}"
            found[name] = found.get(name, 0.0) + float(seconds)
    return found


@dataclass(frozen=True)
class RecordReasons:
    """Finds the reasons of one record in its database."""

    database: Database
    record: Record
    identity: TaskIdentity

    @cached_property
    def task(self) -> Task:
        """The task of the record."""
        target = parse_target(self.identity.target)
        one = self.identity
        return Task.of(parse(one.program), target, one.threads, one.accuracy, in_model=one.in_model)

    @cached_property
    def ceilings(self) -> Ceilings:
        """The ceilings of the machine that the record is of."""
        return ceilings_of(self.database, self.record, self.identity)

    @cached_property
    def _records(self) -> Sequence[Record]:
        return self.database.records(self.identity.key)

    @cached_property
    def _ranked(self) -> Sequence[Record]:
        return rank(self._records)

    @cached_property
    def _own_tree(self) -> LoopTree | None:
        return self._tree(self.record)

    @cached_property
    def _busy(self) -> Busy:
        """Tells what is busy in the record itself, where its loops can be made."""
        return {} if self._own_tree is None else busy_parts(self._own_tree, self.task, self.ceilings)

    def lines(self) -> list[str]:
        """One sentence or two each."""
        return [
            *self._roof(),
            *self._model(),
            *self._schedules(),
            *self._neighbours(),
            *self._failed(),
            *self._untried(),
        ]

    def _roof(self) -> Iterator[str]:
        work, seconds = program_work(parse(self.identity.display)), self.record.seconds
        least = work.least_seconds(self.ceilings)
        arithmetic, memory = work.arithmetic_seconds(self.ceilings), work.memory_seconds(self.ceilings)
        bound = "moving its bytes" if memory >= arithmetic else "its arithmetic"
        other, less = ("its arithmetic", arithmetic) if memory >= arithmetic else ("moving its bytes", memory)
        yield (
            f"The roof is {bound}: no kernel does it in less than {time_text(least)} on that machine, this one takes "
            f"{seconds / least:.2f} times that. {other.capitalize()} alone would take {time_text(less)}."
        )

    def _model(self) -> Iterator[str]:
        tree = self._own_tree
        if tree is None:
            yield "The model has nothing to say: this version cannot make the loops of this record."
            return
        predicted = float(predict(tree, self.task.target, self.task.threads, self.ceilings, 1)[0])
        ratio = self.record.seconds / predicted
        yield f"The model expects {time_text(predicted)}; it was {_times(ratio)} that."
        busy = sorted(self._busy.items(), key=lambda one: -one[1])
        if busy:
            then = f", then {busy[1][0]} ({time_text(busy[1][1])})" if len(busy) > 1 and busy[1][1] > 0 else ""
            yield f"What binds it, in the model, is {busy[0][0]} ({time_text(busy[0][1])}){then}."
        if ratio > _FAR:
            yield "That it is so much slower than expected has a reason which the model does not see, or the machine was busy."

    def _schedules(self) -> Iterator[str]:
        """The best records of other schedules, and what the model sees in them."""
        ranked = self._ranked
        if ranked and ranked[0].id != self.record.id and ranked[0].seconds < self.record.seconds:
            faster = self.record.seconds / ranked[0].seconds
            yield f"It is not the best of its task: record {ranked[0].id} is {faster:.2f} times as fast."
        best: dict[str, Record] = {}
        for one in ranked:
            best.setdefault(one.trial.sketch, one)
        others = [one for sketch, one in best.items() if sketch != self.record.trial.sketch]
        for one in others[:_OTHERS]:
            yield (
                f"The best of the schedule {sketch_title(self.database, one.trial.sketch)} (record {one.id}) took "
                f"{_times(one.seconds / self.record.seconds)} as long{self._because(one)}."
            )
        if not others:
            yield "No other schedule has a record to compare with."

    def _because(self, other: Record) -> str:
        """Says what takes longer in another record, as the model sees it; or what less, where that one is the faster."""
        its = self._tree(other)
        if self._own_tree is None or its is None or self.task.target.is_gpu:
            return ""
        here, there = self._busy, busy_parts(its, self.task, self.ceilings)
        slower = other.seconds >= self.record.seconds
        most = max(*here.values(), *there.values())
        # What may bind.
        names = [name for name in {**here, **there} if max(here.get(name, 0.0), there.get(name, 0.0)) > most / 2]
        change = {name: there.get(name, 0.0) - here.get(name, 0.0) for name in names}
        name = max(change, key=lambda one: change[one] if slower else -change[one])
        before, after = here.get(name, 0.0), there.get(name, 0.0)
        if max(before, after) < _CLOSE * min(before, after):
            return ", for reasons that the model does not see"
        return f": {name} {time_text(after)} instead of {time_text(before)}"

    def _neighbours(self) -> Iterator[str]:
        """Tells what other numbers of the same schedule did, where one alone is another."""
        own = self.record.config
        found: dict[str, dict[str, float]] = {}
        for one in self._ranked:
            if one.trial.sketch == self.record.trial.sketch and one.config.keys() == own.keys():
                changed = [name for name, value in one.config.items() if value != own[name]]
                if len(changed) == 1:
                    ratio = one.seconds / self.record.seconds
                    found.setdefault(changed[0], {})[str(one.config[changed[0]])] = ratio
        for name, ratios in list(found.items())[:_NAMED]:
            said = [f"{value} (x {ratio:.2f})" for value, ratio in ratios.items()]
            yield f"With another {name} than {own[name]} it took longer or less: {_listed(said)}."

    def _failed(self) -> Iterator[str]:
        found = Counter(str(one.trial.measurement.status) for one in self._records)
        failed = {status: count for status, count in found.most_common() if status != str(Status.OK)}
        if failed:
            said = ", ".join(f"{count} {status}" for status, count in failed.items())
            yield f"{sum(failed.values())} trials of this task failed ({said}); `tune show` says of what."

    def _untried(self) -> Iterator[str]:
        tried = {one.trial.sketch for one in self._records}
        titles = [sketch.title for sketch in self.task.sketches if (sketch.key if sketch.steps else "") not in tried]
        if titles:
            yield f"Never tried: {len(titles)} of {len(self.task.sketches)} schedules ({_listed(titles)})."
        sketch = record_sketch(self.database, self.record)
        same = [one.config for one in self._records if one.trial.sketch == self.record.trial.sketch]
        for name, values in self._untried_values(sketch, same):
            yield f"Never tried in this schedule, with the time that the model expects: {name} = {_listed(values)}."
        if sketch.tunables:
            size = sketch.config_space(self.task.body, self.task.target).size
            yield f"Of {size:,} ways to set the numbers of this schedule, {len({str(one) for one in same})} were tried."

    def _untried_values(
        self, sketch: Sketch, same: Sequence[Mapping[str, ConfigValue]]
    ) -> Iterator[tuple[str, list[str]]]:
        """Valid values that no record of the schedule has, all else as here, with the time that the model expects."""
        space, own = sketch.config_space(self.task.body, self.task.target), self.record.config
        try:
            places = [one.values.index(own[one.name]) for one in space.parameters]
        except (ValueError, KeyError):
            return
        for number, parameter in enumerate(space.parameters):
            seen = {config.get(parameter.name) for config in same}
            new = [n for n, value in enumerate(parameter.values) if value not in seen]
            if not new:
                continue
            choices = np.array([places] * (len(new) + 1), np.int32)
            choices[1:, number] = new
            tree = sketch.apply_population(self.task.body, self.task.target, space, choices)
            good = np.asarray(valid(tree, len(choices)))
            expected = predict(tree, self.task.target, self.task.threads, self.ceilings, len(choices))
            told = sorted(
                (float(expected[n] / expected[0]), parameter.values[new[n - 1]]) for n in np.flatnonzero(good) if n
            )
            if told:
                yield parameter.name, [f"{value} (x {ratio:.2f})" for ratio, value in told]

    def _tree(self, record: Record) -> LoopTree | None:
        try:
            return record_sketch(self.database, record).apply(self.task.body, self.task.target, record.config)
        except ScheduleError:
            return None


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return "; ".join(names[:_NAMED]) + (f"; {more} more" if more > 0 else "")
