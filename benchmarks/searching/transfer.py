"""Measure 4: what 8 trials reach when two other shapes of the family were tuned before."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from searching.pieces import Piece, contests, expected
from searching.quality import TRANSFER_TRIALS, TRIALS
from searching.runs import SCRATCH, THREADS, Cut, Found, Plan, run
from searching.store import Store
from searching.tasks import TASKS, donors
from tilesmith.tuner.tune import tune

MARGIN = 20.0  # seconds that a run of few trials may take


def transfer(store: Store, seeds: int = 5) -> Iterator[Piece]:
    """Task by task: the shapes are tuned once."""
    for task in TASKS:
        for seed in range(seeds):
            plan = Plan(task, "transfer", seed, TRANSFER_TRIALS)
            if store.get("run", plan.key) is None:
                place = _prepared(store, task)
                seconds = MARGIN if place.exists() else MARGIN + 2 * expected(store, task, TRIALS)
                yield Piece(
                    "run", plan.key, seconds, lambda end, p=plan, d=place: _moved(p, d, end), not place.exists()
                )
    yield from contests(store)


def _prepared(store: Store, task: str) -> Path:
    """Says where the records of the two shapes are kept, by the code that made them."""
    return SCRATCH / f"shapes-{hashlib.sha256(f'{task} {store.code}'.encode()).hexdigest()[:16]}.sqlite"


def _moved(plan: Plan, known: Path, end: float) -> Found | None:
    """Tunes the shapes where that is not done, and then the task."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    part = known.with_suffix(".part.sqlite")
    if not known.exists():
        for number, row in enumerate(donors(TASKS[plan.task])):
            done = tune(row.program(), threads=THREADS, trials=TRIALS, db=part, seed=number, progress=Cut(end))
            if done.interrupted:
                return None
        part.rename(known)
    return run(Plan(plan.task, plan.label, plan.seed, plan.trials, str(known)), max(end, time.monotonic() + MARGIN))
