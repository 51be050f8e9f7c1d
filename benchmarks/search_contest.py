"""The winners of all runs of a task, measured again together: only such times are compared.

Times that a search records are taken on a machine that drifts, and the least of many is always a lucky one. So what led after
16, 32 and 64 trials is measured with the winner that a run named at its end, and in between the curve of the best so far is
stretched to what its next leader takes here. The best known is the fastest of all; of earlier versions of the code what their
long runs named and the best of the others are measured again for it, and for nothing else.

What a kernel takes depends on where its memory lies, too: ten instances of one, side by side in one process, took from 1.56 to
1.87 ms (packed panels of 128x3072x768 that just fit in the second cache), of another 1.54 to 1.62. So all are measured in
several processes, and the middle one counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import median
from typing import Any

from search_runs import THREADS, Found, led
from search_tasks import TASKS

from tilesmith.measure.calibrate import ceilings
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.race import evened
from tilesmith.measure.result import Job, Purpose
from tilesmith.measure.timer import Timer
from tilesmith.measure.timing import CONFIRM_PLAN
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.apply import analytic_pick

ANALYTIC = "analytic"
LONG = 2000  # trials of the runs that are made for the best known
EARLIER = 24  # different contenders of other versions of the code: the fastest as recorded
PROCESSES = 3  # in which all are measured, one after the other
PLAN = replace(
    CONFIRM_PLAN, race=CONFIRM_PLAN.rounds, lost=1.25, patience=inf
)  # the figures of the slower ones count, too


class ThoroughTimer(Timer):
    """Times all contenders but the slowest to the end."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, confirm_plan=PLAN)


def contest(task: str, runs: dict[str, Found], earlier: dict[str, Found]) -> Found:
    """{"seconds": name of run -> seconds of its winner, name@mark -> of what led then}; what the analytic model picks without a
    trial is among them. `earlier`: runs of other versions of the code."""
    target = parse_target("host")
    described = Task.of(TASKS[task].program(), target, THREADS)
    pick = analytic_pick(described)
    entries: dict[str, tuple[str, Found]] = {
        ANALYTIC: (pick.sketch.text if pick.sketch.steps else "", dict(pick.config))
    }
    long = {key: found for key, found in earlier.items() if found["trials"] >= LONG}
    entries |= _winners(runs, len(runs)) | _winners(long, len(long)) | _winners(earlier, EARLIER) | _leaders(runs)
    seconds = measured(described, target.text, list(dict.fromkeys(map(_text, entries.values()))))
    return {"seconds": {name: seconds[_text(entry)] for name, entry in entries.items()}}


def _winners(runs: dict[str, Found], count: int) -> dict[str, tuple[str, Found]]:
    """(sketch, config) of the winners of the runs that found the fastest, so many different ones."""
    ranked = sorted((key for key in runs if runs[key]["winner"]), key=lambda key: runs[key]["winner"]["seconds"])
    entries = {key: (runs[key]["winner"]["sketch"], runs[key]["winner"]["config"]) for key in ranked}
    different = list(dict.fromkeys(map(_text, entries.values())))[:count]
    return {key: entry for key, entry in entries.items() if _text(entry) in different}


def _leaders(runs: dict[str, Found]) -> dict[str, tuple[str, Found]]:
    """(sketch, config) of what led after so many trials of each run."""
    return {
        f"{key}@{mark}": (leader["sketch"], leader["config"])
        for key, found in runs.items()
        for mark, leader in led(found)
    }


def _text(entry: tuple[str, Found]) -> str:
    return json.dumps(entry, sort_keys=True)


def measured(task: Task, target: str, entries: Sequence[str]) -> dict[str, float]:
    """Seconds of each: the middle one of several processes, in turns in each; infinity for what does not run (any more)."""
    jobs = []
    for number, entry in enumerate(entries):
        sketch, config = json.loads(entry)
        jobs.append(Job(number, task.text, sketch, config, target, THREADS, Purpose.CONFIRM))
    known = ceilings(task.target, THREADS)
    found: dict[str, list[float]] = {entry: [] for entry in entries}
    for _ in range(PROCESSES):
        with LocalRunner(target, THREADS, ceilings=known, timer=f"{__name__}:ThoroughTimer") as runner:
            for number, measurement in runner.confirm(jobs):
                found[entries[number]].append(measurement.seconds)
    ran = [entry for entry in entries if max(found[entry]) < inf]
    even = evened([found[entry] for entry in ran])  # processes met the machine in different moods
    return dict.fromkeys(entries, inf) | {entry: median(of_one) for entry, of_one in zip(ran, even, strict=True)}
