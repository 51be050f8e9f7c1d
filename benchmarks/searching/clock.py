"""Measure 2: trials a second, where the time goes, and whether memory stays flat."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from rich.table import Table

from searching.pieces import Piece, expected
from searching.quality import headed
from searching.runs import Found, Plan, forget, run
from searching.store import Store
from searching.tasks import CLOCK, short

SAMPLER = Path(__file__).parent / "sampler.py"
TRIALS, MANY = 128, 4000
SEEDS = 5  # of the short searches, of which the middle one counts: they last as long as a machine's moods
SPEED_BARS = dict(zip(CLOCK, (10.0, 5.0), strict=True))
OUTSIDE_BARS = {TRIALS: 0.15, MANY: 0.20}


def clock(store: Store, many: int = MANY) -> Iterator[Piece]:
    """Short searches and a long one of each; they are not cut, as starting again is no part of the figure."""
    for trials, seeds in ((TRIALS, SEEDS), (many, 1)):
        for task, seed in product(CLOCK, range(seeds)):
            plan = Plan(task, "guided", seed, trials)
            if store.get("clock", plan.key) is None:
                yield Piece("clock", plan.key, expected(store, task, trials), lambda _, p=plan: watched(p))


def watched(plan: Plan) -> Found | None:
    """A run in a new process, so that loading XGBoost is a part of it, and how often nothing was at work during it. What a call
    that was ended left of one is no part of it."""
    forget(plan.database)
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        command = [sys.executable, str(SAMPLER), str(fresh.submit(os.getpid).result())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sampler:
            found = fresh.submit(run, plan, time.monotonic() + 3600.0).result()
            sampler.send_signal(signal.SIGTERM)
            said = sampler.communicate()[0]
    return None if found is None else found | {"sampled": json.loads(said)}


def tables(store: Store) -> Iterator[Table]:
    """One line for the searches of a task that make so many trials: the one that took the middle time."""
    heads = (
        "search",
        "trials",
        "runs",
        "trials/s",
        "asked",
        "nothing at work",
        "asked",
        "thinking",
        "ms a trial",
        "first result",
        "memory, MB",
    )
    table = headed("where the time of a search goes (shares of the wall)", *heads)
    searches: dict[tuple[int, str], list[Found]] = defaultdict(list)
    for _, found in store.all("clock"):
        searches[found["trials"], found["task"]].append(found)
    for _, runs in sorted(searches.items()):
        found = sorted(runs, key=lambda found: found["spent"]["wall"])[len(runs) // 2]
        spent, sampled = found["spent"], found["sampled"]
        bar = OUTSIDE_BARS.get(found["trials"])
        table.add_row(
            short(found["task"]), str(found["trials"]), str(len(runs)),
            f"{found['trials'] / spent['wall']:.1f}", f"{SPEED_BARS[found['task']]:.0f}",
            f"{sampled['idle'] / max(sampled['looks'], 1):.1%}", f"{bar:.0%}" if bar else "",
            f"{spent['search'] / spent['wall']:.1%}", stages(found), f"{found['first']:.1f} s", memory(found),
        )  # fmt: skip
    if not table.row_count:
        table.add_row("not measured")
    yield table


def stages(found: Found) -> str:
    """Compiling (processor time, on several cores), checking, timing: milliseconds of a trial, with the final comparison."""
    return ", ".join(f"{1e3 * found['spent'][name] / found['trials']:.0f}" for name in ("compile", "check", "measure"))


def memory(found: Found) -> str:
    """The memory of the search and of its children: early (after 100 trials, if there were as many) and at the end."""
    looks = found["memory"]
    early = next((look for look in looks if look[0] >= 100), looks[0])
    return ", ".join(f"{early[part] / 1e6:.0f} to {looks[-1][part] / 1e6:.0f}" for part in (1, 2))
