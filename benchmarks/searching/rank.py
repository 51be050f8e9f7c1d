"""Measure 7: how well the analytic model ranks random candidates, and how many drafted ones fail.

Most random candidates of a softmax are within 20% of each other, and so are two measurements of one, minutes apart: the rank
correlation of a whole measurement with its own repetition was 0.45 to 0.67. So each candidate is timed in several runs, and the
fastest counts, as noise only adds time; how well the runs agree with each other stands beside how well the model does. The
fastest of 1,500 times is the luckiest, not the best: which one that is, the first few find out among themselves, timed together
as the winners of searches are (contest.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
from rich.table import Table

from searching.apart import agreement, held_of, seconds_of
from searching.contest import measured
from searching.pieces import CONTEST, Piece, expected, runs_of
from searching.quality import headed
from searching.runs import THREADS, Found, Plan, run
from searching.store import Store
from searching.tasks import TASKS, short
from tilesmith.cost_model.learned.metrics import rank_correlation
from tilesmith.measure.calibrate.calibrate import ceilings
from tilesmith.measure.result import Purpose
from tilesmith.schedules.space_ops import group
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tuner.outcome import TuneResult
from tilesmith.tuner.problem import Problem, problem_of
from tilesmith.tuner.records.data import Machine
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.search.pool import prior_of
from tilesmith.tuner.task_space import TaskSpace

COUNT, RUNS = 500, 3
FRONT = 24  # candidates of which one is the best
SPEARMAN_BAR, FIRST, FIRST_BAR, FAILED_BAR = 0.8, 0.10, 10, 0.02


def rank(store: Store) -> Iterator[Piece]:
    """Random trials of each task, the same ones in each run; then the fastest of them together."""
    for again in range(RUNS):
        for task in TASKS:
            plan = Plan(task, "random", 1000, COUNT, again=again)
            if store.get("rank", plan.key) is None:
                yield Piece(
                    "rank", plan.key, expected(store, task, COUNT), lambda end, p=plan: run(p, end, times), True
                )
    for task, of_task in held_of(store).items():
        if len(of_task) == RUNS and store.get("front", task) is None:
            yield Piece("front", task, CONTEST, lambda _, t=task, held=of_task: front(t, held))


def times(plan: Plan, result: TuneResult, _: Database) -> Found:
    """{"times": {candidate: (predicted, measured) seconds, None where it failed}, "front": {candidate: (key of its sketch,
    config)} of the fastest}, candidates by a hash."""
    problem = problem_here(plan.rows[plan.task].program())
    searched = [r for r in result.records if r.trial.purpose is Purpose.SEARCH]
    known = [(problem.candidate(r.trial.sketch, r.config), r) for r in searched]
    kept = [(candidate, record) for candidate, record in known if candidate is not None]
    found: dict[str, tuple[float, float | None]] = {}
    entries = {}
    for rows, members in group(problem.space, [candidate for candidate, _ in kept]):
        for row, predicted in zip(rows, prior_of(problem.space, members), strict=True):
            record = kept[int(row)][1]
            name = hashlib.sha256(f"{record.trial.sketch} {record.trial.config}".encode()).hexdigest()[:8]
            seconds = float(f"{record.seconds:.4g}") if record.seconds < float("inf") else None
            found[name] = (float(f"{predicted:.4g}"), seconds)
            entries[name] = (record.seconds, (record.trial.sketch, dict(record.config)))
    fastest = sorted(entries, key=lambda name: entries[name][0])[:FRONT]
    return {"times": found, "front": {name: entries[name][1] for name in fastest}}


def problem_here(program: Program) -> Problem:
    """The problem of a search of a program on this machine."""
    target = parse_target("host")
    space = TaskSpace(Task.of(program, target, THREADS), ceilings(target, THREADS))
    return problem_of(program, space, Machine("", ""))


def front(task: str, held: Sequence[Found]) -> Found:
    """{"seconds": {candidate: seconds}} of the fastest candidates of some runs, timed together."""
    problem = problem_here(TASKS[task].program())
    sketches = [problem.sketch(number) for number in range(len(problem.space.config_spaces))]
    texts = {sketch.key: sketch.text for sketch in sketches}
    entries = {
        name: json.dumps((texts[sketch], config)) for found in held for name, (sketch, config) in found["front"].items()
    }
    times = {name: min(found["times"][name][1] or np.inf for found in held) for name in entries}
    fastest = sorted(entries, key=lambda name: times[name])[:FRONT]
    described = problem.space.task
    taken = measured(described, described.target.text, [entries[name] for name in fastest])
    return {"seconds": {name: median(taken[entries[name]]) for name in fastest}}


class Timed(NamedTuple):
    """Seconds of the candidates that all runs have: float64[n] predicted, float64[runs, n] measured (infinity: failed).
    `best`: the number of the best of them; of the luckiest, where the first few were not timed together."""

    predicted: np.ndarray
    measured: np.ndarray
    best: int

    @property
    def fastest(self) -> np.ndarray:
        """float64[n]: what counts of the runs."""
        return np.asarray(self.measured.min(axis=0))


def timed(store: Store) -> dict[str, Timed]:
    """Returns what was measured, by task."""
    out = {}
    for task, of_task in held_of(store).items():
        names, seconds = seconds_of(of_task)
        predicted = np.array([of_task[0]["times"][name][0] for name in names])
        together = (store.get("front", task) or {}).get("seconds", {})
        known = {name: together[name] for name in names if name in together}
        order = known or dict(zip(names, seconds.min(axis=0), strict=True))
        out[task] = Timed(predicted, seconds, names.index(min(order, key=lambda name: order[name])))
    return out


def place_of(best: int, predicted: np.ndarray) -> float:
    """Says where a candidate stands in the order of prediction: 0 first, 1 last."""
    return float((predicted < predicted[best]).mean())


def tables(store: Store) -> Iterator[Table]:
    """One line for each task."""
    table = headed(
        f"the analytic model on {COUNT} random candidates",
        "task",
        "Spearman",
        "of two runs",
        "the best stands at",
        "failed of drafted",
    )
    held = timed(store)
    correlations, places, drafted = [], [], np.zeros(2)
    for task in TASKS:
        cells = ["not measured", "", ""]
        if task in held:
            predicted, fastest = held[task].predicted, held[task].fastest
            correlations.append(rank_correlation(predicted, fastest))
            places.append(place_of(held[task].best, predicted))
            apart = agreement(held[task].measured)
            cells = [f"{correlations[-1]:.2f}", f"{apart:.2f}" if apart is not None else "", f"{places[-1]:.1%}"]
        searches = [f["drafted"] for f in runs_of(store, task).values() if f["label"] == "guided"]
        drafted += np.array(searches, dtype=float).sum(axis=0) if searches else 0.0
        failed = f"{sum(r[1] for r in searches)} of {sum(r[0] for r in searches)}" if searches else ""
        table.add_row(short(task), *cells, failed)
    if correlations:
        within = f"{sum(place <= FIRST for place in places)} of {len(places)} in the first {FIRST:.0%}"
        share = f"{drafted[1] / drafted[0]:.1%}" if drafted[0] else ""
        table.add_row("all", f"{fmean(correlations):.2f}", "", within, share)
        table.add_row("asked", f"{SPEARMAN_BAR:.2f}", "", f"{FIRST_BAR} of 12", f"{FAILED_BAR:.0%}")
    yield table
