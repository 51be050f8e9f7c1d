"""Measure 7: how well the analytic model ranks random candidates, and how many drafted ones fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np
from rich.table import Table
from search_pieces import Piece, expected, runs_of
from search_quality import headed
from search_runs import THREADS, Found, Plan, run
from search_store import Store
from search_tasks import TASKS, short

from tilesmith.cost_model.metrics import rank_correlation
from tilesmith.measure.calibrate import ceilings
from tilesmith.measure.result import Purpose
from tilesmith.schedules.space_ops import group
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.database import Database
from tilesmith.tuner.outcome import TuneResult
from tilesmith.tuner.problem import problem_of
from tilesmith.tuner.records import Machine
from tilesmith.tuner.search.pool import prior_of
from tilesmith.tuner.task_space import TaskSpace

COUNT = 500
SPEARMAN_BAR, FIRST, FIRST_BAR, FAILED_BAR = 0.8, 0.10, 10, 0.02


def rank(store: Store) -> Iterator[Piece]:
    """Random trials of each task."""
    for task in TASKS:
        plan = Plan(task, "random", 1000, COUNT)
        if store.get("rank", plan.key) is None:
            yield Piece("rank", plan.key, expected(store, task, COUNT), lambda end, p=plan: run(p, end, pairs), True)


def pairs(plan: Plan, result: TuneResult, _: Database) -> Found:
    """{"pairs": (predicted, measured) seconds of each trial, None where it failed}."""
    program, target = plan.rows[plan.task].program(), parse_target("host")
    space = TaskSpace(Task.of(program, target, THREADS), ceilings(target, THREADS))
    problem = problem_of(program, space, Machine("", ""))
    searched = [r for r in result.records if r.trial.purpose is Purpose.SEARCH]
    known = [(problem.candidate(r.trial.sketch, r.config), r.seconds) for r in searched]
    kept = [(candidate, seconds) for candidate, seconds in known if candidate is not None]
    found: list[tuple[float, float | None]] = []
    for rows, members in group(space, [candidate for candidate, _ in kept]):
        for row, predicted in zip(rows, prior_of(space, members), strict=True):
            seconds = kept[int(row)][1]
            found.append((float(f"{predicted:.4g}"), float(f"{seconds:.4g}") if seconds < float("inf") else None))
    return {"pairs": found}


def columns(found: Found) -> tuple[np.ndarray, np.ndarray]:
    """float64[n] predicted, measured (infinity: failed)."""
    return np.array([p for p, _ in found["pairs"]]), np.array([np.inf if m is None else m for _, m in found["pairs"]])


def place_of_best(predicted: Sequence[float] | np.ndarray, measured: np.ndarray) -> float:
    """Where the measured best stands in the order of prediction: 0 first, 1 last."""
    values = np.asarray(predicted)
    return float((values < values[int(np.argmin(measured))]).mean())


def tables(store: Store) -> Iterator[Table]:
    """One line for each task."""
    table = headed(
        f"the analytic model on {COUNT} random candidates",
        "task",
        "Spearman",
        "the best stands at",
        "failed of drafted",
    )
    held = {found["task"]: found for _, found in store.all("rank")}
    correlations, places, drafted = [], [], np.zeros(2)
    for task in TASKS:
        cells = ["not measured", ""]
        if task in held:
            predicted, measured = columns(held[task])
            correlations.append(rank_correlation(predicted, measured))
            places.append(place_of_best(predicted, measured))
            cells = [f"{correlations[-1]:.2f}", f"{places[-1]:.1%}"]
        runs = [f["drafted"] for f in runs_of(store, task).values() if f["label"] == "guided"]
        drafted += np.array(runs, dtype=float).sum(axis=0) if runs else 0.0
        table.add_row(short(task), *cells, f"{sum(r[1] for r in runs)} of {sum(r[0] for r in runs)}" if runs else "")
    if correlations:
        within = f"{sum(place <= FIRST for place in places)} of {len(places)} in the first {FIRST:.0%}"
        share = f"{drafted[1] / drafted[0]:.1%}" if drafted[0] else ""
        table.add_row("all", f"{fmean(correlations):.2f}", within, share)
        table.add_row("asked", f"{SPEARMAN_BAR:.2f}", f"{FIRST_BAR} of {len(TASKS)}", f"{FAILED_BAR:.0%}")
    yield table
