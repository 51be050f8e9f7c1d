"""The child that times candidates inside of the model that they are kernels of.

Each *variant* of the model takes one candidate for every kernel. A run of a variant is timed call by call, so all kernels are
timed at once, each with the caches as the calls before it leave them. Variants take turns.

What a kernel keeps of its weights is no matter of its own: a byte more is one that others read from memory again, where the
weights of the model about fill the last cache. So from the times of single kernels follow a few *lineups*, each of which takes
the fastest candidates at another price of a byte, and these are compared as wholes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from operator import mul
from os import sysconf
from statistics import median

import numpy as np

from ...codegen.artifact import Artifact
from ...codegen.rows import ArgumentRows
from ...common.outside import let_through
from ...cost_model.kept import keeping_seconds
from ...graph.executor.compose import compose
from ...graph.model import Model
from ...measure.calibrate.calibrate import known_ceilings
from ...measure.process.worker import Link
from ...measure.result import Config
from ...runtime.devices.base import Array
from ...runtime.devices.cpu.device import CpuDevice, CpuKernel
from ...schedules.sketch import UNSCHEDULED, parse_sketch
from ...schedules.task import Task
from ...targets.target import parse_target
from ...tensor.accuracy import Accuracy
from ...tensor.dtype import DTYPES
from ...tensor.oracle.random_inputs import named_inputs
from ..apply.first_built import built
from ..apply.pick import Pick, Provenance
from ..apply.tiers import analytic_pick
from ..kernels import Kernels, parts_of
from ..records.data import canonical_config

SketchConfig = tuple[str, Config]  # a sketch's text, and a config of it
Lineup = tuple[int, ...]  # for each task of a model which of its candidates
Report = Callable[[str, int], None]  # hears what is being done, in words, and how much of it is done, in percent
BUILDING, TIMING, COMPARING = "building candidates", "timing them inside of it", "comparing lineups"
SECONDS = 6.0  # of runs, twice
LEAST_ROUNDS, MOST_ROUNDS = 5, 40
RUNS = 2  # of a variant in a round that are timed
PRICES = (0.0, 0.35, 0.7, 1.0)  # of a byte that is kept, in what cost_model/kept.py takes for it
MEMORY = 0.4  # of the machine's, that all variants may take


@dataclass(frozen=True, slots=True)
class Race:
    """A saved model, and candidates of its kernels by the keys of their tasks, the best first. To those of each kernel the one
    that the analytic model picks is added, as `compile` serves it where nothing was tuned."""

    model: str
    target: str
    threads: int
    accuracy: Accuracy
    candidates: Mapping[str, Sequence[SketchConfig]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The candidate of a kernel in the fastest lineup. `times`: the mean seconds of its calls in each run of the model."""

    sketch: str
    config: Config
    times: tuple[float, ...]


class Racer:
    """The handler of the child (`measure/process/worker.py`)."""

    def handle(self, request: Race, link: Link) -> dict[str, Chosen] | str:
        """The choice for each task, or why there is none."""
        try:
            return _raced(request, link.stage)
        except Exception as error:
            let_through(error)
            return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One candidate of a kernel: its code for each way in which arguments of its calls lie."""

    pick: Pick
    code: Mapping[ArgumentRows, Artifact]

    @property
    def kept(self) -> int:
        """Counts the bytes that it keeps of constants."""
        one = next(iter(self.code.values()))
        held = [one.constants[number] for number in one.held]
        return one.prepared_bytes + sum(prod(spec.shape) * DTYPES[spec.dtype].bytes for spec in held)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The kernels of a model and the candidates of each, the analytic model's first."""

    kernels: Kernels
    of: Sequence[Sequence[_Candidate]]

    def artifact(self, lineup: Lineup) -> Artifact:
        """The model with one candidate of each task."""
        parts = self.kernels.partition
        called = [
            self.of[number][lineup[number]].code[parts.rows(kernel)]
            for number, kernel in zip(self.kernels.number, parts.kernels, strict=True)
        ]
        return compose(parts.program, parts.kernels, called, parts.aliases, parts.inside)


def _raced(race: Race, report: Report) -> dict[str, Chosen] | str:
    model, target = Model.load(race.model), parse_target(race.target)
    parts = parts_of(model.program, target)
    if parts is None:
        return "the model is one kernel"
    kernels = Kernels.of(parts, target, race.threads, race.accuracy)
    given = [race.candidates.get(task.key, ()) for task in kernels.tasks]
    built_of = []
    for number, own in enumerate(given):
        report(BUILDING, 100 * number // len(given))
        built_of.append(_buildable(kernels, number, own))
    found = _Candidates(kernels, built_of)
    track = _Track(model, found, report)
    leads = tuple(_leader(own, listed) for own, listed in zip(found.of, given, strict=True))
    ceilings = known_ceilings(target, race.threads)
    kept = [[keeping_seconds(one.kept, ceilings) for one in own] for own in found.of]
    best, runs = _fastest(track.runs(lineups(_alone(track), kept, leads), COMPARING), kernels)
    picks = [own[number].pick for own, number in zip(found.of, best, strict=True)]
    return {
        task.key: Chosen(pick.sketch.text, dict(pick.config), tuple(calls[number] for calls in runs))
        for number, (task, pick) in enumerate(zip(kernels.tasks, picks, strict=True))
    }


def _buildable(kernels: Kernels, task: int, given: Sequence[SketchConfig]) -> list[_Candidate]:
    """The candidates of a task that can be built for all its calls. Errors: the first one, where there are none."""
    parts = kernels.partition
    calls = [kernel for number, kernel in zip(kernels.number, parts.kernels, strict=True) if number == task]
    rows = list(dict.fromkeys(map(parts.rows, calls)))
    found, failed = [], list[Exception]()
    for pick in _picks(kernels.tasks[task], given):
        try:
            found.append(_Candidate(pick, {one: built(kernels.tasks[task], pick, one) for one in rows}))
        except Exception as error:
            let_through(error)
            failed.append(error)
    if not found:
        raise failed[0]
    return found


def _alone(track: _Track) -> list[list[float]]:
    """The median seconds of each candidate of each task, in variants of the model that all of them take part in; infinity where
    there was no room for them."""
    counts = [len(own) for own in track.found.of]
    variants = [tuple(n % count for count in counts) for n in range(max(counts))]
    times: list[list[list[float]]] = [[[] for _ in range(count)] for count in counts]
    for lineup, calls in track.runs(variants, TIMING):
        for task, candidate in enumerate(lineup):
            times[task][candidate].append(calls[task])
    return [[median(one) if one else inf for one in own] for own in times]


def lineups(seconds: Sequence[Sequence[float]], kept: Sequence[Sequence[float]], leads: Lineup) -> list[Lineup]:
    """Makes the lineups that are compared: that of the analytic model, which `compile` takes where nothing was tuned, that of
    what leads by trials, and the fastest at several prices of a byte.

    seconds: of each candidate of each task, the analytic model's first. kept: what the bytes are worth that it keeps.
    """
    made = [tuple(0 for _ in seconds), leads]
    for price in PRICES:
        costs = [[s + price * k for s, k in zip(*own, strict=True)] for own in zip(seconds, kept, strict=True)]
        made.append(tuple(own.index(min(own)) for own in costs))
    return list(dict.fromkeys(made))


def _fastest(runs: Iterable[tuple[Lineup, list[float]]], kernels: Kernels) -> tuple[Lineup, list[list[float]]]:
    """The lineup with which the model is the fastest, and its runs."""
    of_each: dict[Lineup, list[list[float]]] = {}
    for lineup, calls in runs:
        of_each.setdefault(lineup, []).append(calls)
    counts = [kernels.number.count(task) for task in range(len(kernels.tasks))]
    best = min(of_each, key=lambda one: median(sum(map(mul, counts, calls)) for calls in of_each[one]))
    return best, of_each[best]


def _picks(task: Task, candidates: Sequence[SketchConfig]) -> list[Pick]:
    """The analytic model's, then the candidates, each once."""
    found = {_place(pick := analytic_pick(task)): pick}
    for text, config in candidates:
        sketch = parse_sketch(text) if text else UNSCHEDULED
        pick = Pick(sketch, config, Provenance("exact", None, sketch.title, config, None))
        found.setdefault(_place(pick), pick)
    return list(found.values())


def _leader(found: Sequence[_Candidate], given: Sequence[SketchConfig]) -> int:
    """The number of the best by trials; of the first where that cannot be built."""
    first = [(text, canonical_config(config)) for text, config in given[:1]]
    return next((number for number, one in enumerate(found) if _place(one.pick) in first), 0)


def _place(pick: Pick) -> tuple[str, str]:
    return pick.sketch.text, canonical_config(pick.config)


@dataclass(frozen=True, slots=True)
class _Track:
    """Runs lineups."""

    model: Model
    found: _Candidates
    report: Report

    def runs(self, lineups: Sequence[Lineup], why: str) -> Iterator[tuple[Lineup, list[float]]]:
        """Lineups in turns: for each run the seconds of a call of each task. `why`: what is reported meanwhile."""
        self.report(why, 0)
        arrays, loaded = _arguments(self.model), self._loaded(lineups)
        order, rounds = np.random.default_rng(0), _rounds(loaded, arrays)
        for round_ in range(rounds):
            self.report(why, 100 * round_ // rounds)
            for number in order.permutation(len(loaded)):
                loaded[number].run_timed(arrays)  # brings its own data back into the caches
                for _ in range(RUNS):
                    yield lineups[number], self._of_tasks(loaded[number].run_timed(arrays))

    def _loaded(self, lineups: Sequence[Lineup]) -> list[CpuKernel]:
        """The model with each lineup, ready to run, as many as have room."""
        constants = [np.asarray(self.model.constants[tensor.name]) for tensor in self.model.program.constant_inputs]
        found: list[CpuKernel] = []
        room = MEMORY * sysconf("SC_PAGE_SIZE") * sysconf("SC_PHYS_PAGES")
        for lineup in lineups:
            artifact = self.found.artifact(lineup)
            room -= artifact.prepared_bytes
            if found and room < 0:
                break
            found.append(CpuDevice().load(artifact))
            found[-1].prepare(constants)
        return found

    def _of_tasks(self, calls: Sequence[float]) -> list[float]:
        """The mean seconds of the calls of each task; what a model copies at the end is of none."""
        sums = [0.0] * len(self.found.kernels.tasks)
        counts = [0] * len(sums)
        for task, seconds in zip(self.found.kernels.number, calls, strict=False):
            sums[task] += seconds
            counts[task] += 1
        return [total / count for total, count in zip(sums, counts, strict=True)]


def _arguments(model: Model) -> list[Array]:
    """Random inputs, then places for outputs."""
    program = model.program
    inputs = named_inputs(program, [tensor.name for tensor in program.dynamic_inputs])
    given = [np.ascontiguousarray(inputs[tensor.name]) for tensor in program.dynamic_inputs]
    made = [CpuDevice().empty(program.tensors[n].shape, program.tensors[n].dtype.numpy) for n in program.outputs]
    return [*given, *made]


def _rounds(loaded: Sequence[CpuKernel], arrays: Sequence[Array]) -> int:
    """Says how many rounds there is time for."""
    for kernel in loaded:
        kernel.run_timed(arrays)
    once = sum(sum(kernel.run_timed(arrays)) for kernel in loaded)
    return int(min(max(SECONDS / ((1 + RUNS) * once), LEAST_ROUNDS), MOST_ROUNDS))
