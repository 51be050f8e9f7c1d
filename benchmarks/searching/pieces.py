"""What there is to do for a measure, the most urgent first, and doing as much of it as fits into the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from searching.contest import contest
from searching.runs import Found, Plan, run
from searching.store import Store
from searching.tasks import TASKS

GUESS = 0.15  # seconds of a trial on a task that was never tried
START = 4.0  # seconds of a run besides its trials
CONTEST = 12.0  # seconds of a contest

Say = Callable[[str], None]


@dataclass(frozen=True)
class Piece:
    """One thing to do. `run` is given a time of `monotonic` at which to stop, and gives None when it has to be continued."""

    measure: str
    key: str
    seconds: float  # that it will take, as far as is known
    run: Callable[[float], Found | None]
    continues: bool = False  # it may be begun though it will not end in time


def work(store: Store, pieces: Callable[[], Iterable[Piece]], minutes: float, say: Say) -> None:
    """Does what is missing for that long. `pieces` is asked again after each: what is next depends on what was found."""
    end = time.monotonic() + 60 * minutes
    while True:
        left = end - time.monotonic()
        fits = (p for p in pieces() if left > (min(p.seconds, 15.0) if p.continues else p.seconds))
        piece = next(fits, None)
        if piece is None:
            return
        begin = time.monotonic()
        found = piece.run(end)
        say(f"{piece.measure} {piece.key}: {'cut' if found is None else 'done'} after {time.monotonic() - begin:.1f} s")
        if found is None:
            return
        store.put(piece.measure, piece.key, found)


def searches(store: Store, plans: Iterable[Plan], known: Container[str] = ()) -> Iterator[Piece]:
    """The pieces of the runs that are missing; `known`: keys of those that are not."""
    for plan in plans:
        if plan.key not in known and store.get("run", plan.key) is None:
            yield Piece("run", plan.key, expected(store, plan.task, plan.trials), lambda end, p=plan: run(p, end), True)


def expected(store: Store, task: str, trials: int) -> float:
    """Seconds of a run, by those that are known."""
    each = [f["spent"]["wall"] / f["trials"] for f in runs_of(store, task).values() if f["trials"] > 30]
    return START + 1.2 * trials * (median(each) if each else GUESS)


def runs_of(store: Store, task: str) -> dict[str, Found]:
    """All finished runs of a task, by key."""
    return {key: found for key, found in store.all("run") if found["task"] == task}


def contests(store: Store, tasks: Iterable[str] = tuple(TASKS)) -> Iterator[Piece]:
    """The contests of tasks with runs that were not measured together yet."""
    for task in tasks:
        runs, held = runs_of(store, task), store.get("contest", task)
        if runs and (held is None or "known" not in held or set(held["of"]) != set(runs)):
            earlier = {key: found for key, found in store.earlier("run") if found["task"] == task}
            yield Piece(
                "contest", task, CONTEST, lambda _, t=task, r=runs, e=earlier: contest(t, r, e) | {"of": sorted(r)}
            )
