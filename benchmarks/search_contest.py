"""The winners of all runs of a task, measured again together: only such times are compared.

Times that a search records are taken on a machine that drifts, and the least of many is always a lucky one. So each curve of
the best so far is stretched until its end is what the run's winner takes in the contest. The best known is the fastest there;
the winners of earlier versions of the code, of which the best are measured again, count for it and for nothing else.

What a kernel takes depends on where its memory lies, too: ten instances of one, side by side in one process, took from 1.56 to
1.87 ms (packed panels of 128x3072x768 that just fit in the second cache), of another 1.54 to 1.62. So all are measured in
several processes, and the middle one counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median
from typing import Any

from search_runs import THREADS, Found
from search_tasks import TASKS

from tilesmith.measure.calibrate import ceilings
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.result import Job, Purpose
from tilesmith.measure.timer import Timer
from tilesmith.measure.timing import THOROUGH_PLAN
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.apply import analytic_pick

ANALYTIC = "analytic"
EARLIER = 24  # different contenders of other versions of the code: the fastest as recorded
PROCESSES = 3  # in which all are measured, one after the other


class ThoroughTimer(Timer):
    """Times all contenders to the end: the slower ones' figures are asked for, too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, confirm_plan=THOROUGH_PLAN)


def contest(task: str, runs: dict[str, Found], earlier: dict[str, Found]) -> Found:
    """{"seconds": name of run -> seconds of its winner}; what the analytic model picks without a trial is among them.
    `earlier`: runs of other versions of the code."""
    target = parse_target("host")
    described = Task.of(TASKS[task].program(), target, THREADS)
    pick = analytic_pick(described)
    entries: dict[str, tuple[str, Found]] = {
        ANALYTIC: (pick.sketch.text if pick.sketch.steps else "", dict(pick.config))
    }
    entries |= _winners(runs, len(runs)) | _winners(earlier, EARLIER)
    seconds = measured(described, target.text, list(dict.fromkeys(map(_text, entries.values()))))
    return {"seconds": {name: seconds[_text(entry)] for name, entry in entries.items()}}


def _winners(runs: dict[str, Found], count: int) -> dict[str, tuple[str, Found]]:
    """(sketch, config) of the winners of the runs that found the fastest, so many different ones."""
    ranked = sorted((key for key in runs if runs[key]["winner"]), key=lambda key: runs[key]["winner"]["seconds"])
    entries = {key: (runs[key]["winner"]["sketch"], runs[key]["winner"]["config"]) for key in ranked}
    different = list(dict.fromkeys(map(_text, entries.values())))[:count]
    return {key: entry for key, entry in entries.items() if _text(entry) in different}


def _text(entry: tuple[str, Found]) -> str:
    return json.dumps(entry, sort_keys=True)


def measured(task: Task, target: str, entries: Sequence[str]) -> dict[str, float]:
    """Seconds of each: the middle one of several processes, interleaved in each; infinity for what does not run (any more)."""
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
    return {entry: median(seconds) for entry, seconds in found.items()}
