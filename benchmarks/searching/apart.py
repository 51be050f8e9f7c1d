"""Whether a machine tells the candidates of a task apart: where it does not, no search can be measured on it.

Of the same random candidates, timed in several runs, the times of two runs agree by a rank correlation of 0.6 to 0.99. Where a
task just fits into a cache that neighbours use, what is fast in one half of a second is slow in the next: they agreed by 0.15,
and which kernel is the best was another one in each contest.
"""

from __future__ import annotations

from itertools import combinations
from statistics import fmean

import numpy as np

from searching.runs import Found
from searching.store import Store
from searching.tasks import TASKS
from tilesmith.cost_model.learned.metrics import rank_correlation

LEAST = 0.4  # rank correlation of two runs, below which a task's figures are shown, and count for nothing


def held_of(store: Store) -> dict[str, list[Found]]:
    """The runs of the random candidates of each task."""
    held: dict[str, list[Found]] = {}
    for _, found in store.all("rank"):
        if "times" in found:  # else it is of older code, which timed each once
            held.setdefault(found["task"], []).append(found)
    return held


def seconds_of(runs: list[Found]) -> tuple[list[str], np.ndarray]:
    """The candidates that all runs have, and their float64[runs, n] seconds (infinity: failed)."""
    names = sorted(set.intersection(*(set(found["times"]) for found in runs)))
    return names, np.array([[found["times"][name][1] or np.inf for name in names] for found in runs], dtype=np.float64)


def agreement(seconds: np.ndarray) -> float | None:
    """Mean rank correlation of the runs with each other; None for one."""
    found = [rank_correlation(a, b) for a, b in combinations(seconds, 2)]
    return fmean(found) if found else None


def told_apart(store: Store) -> list[str]:
    """The tasks that count: all but those of which is known that two runs do not agree."""
    known = {task: agreement(seconds_of(runs)[1]) for task, runs in held_of(store).items()}
    return [task for task in TASKS if (of_task := known.get(task)) is None or of_task >= LEAST]
