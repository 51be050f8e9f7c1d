"""The winners of all runs of a task, measured again together: only such times are compared.

Times that a search records are taken on a machine that drifts, and the least of many is always a lucky one. So what led after
16, 32 and 64 trials is measured with the winner that a run named at its end. Had a search ended there, a confirmation would
have chosen among these leaders; so the fastest of them in one process is chosen, and counts with what it takes in the others.
In between the curve of the best so far is stretched to what its next leader takes here. The best known is the fastest of all:
chosen by what all take in two processes, it counts with what it takes in the third; for each of these in turn, and the middle
one is what a search is compared with. The least of sixty times that are right to 0.7% would be 1.5% below what anything takes.
Of earlier versions of the code what their long runs named and the best of the others are measured again for it, and for nothing
else.

What a kernel takes depends on where its memory lies, too: ten instances of one, side by side in one process, took from 1.56 to
1.87 ms (packed panels of 128x3072x768 that just fit in the second cache), of another 1.54 to 1.62. So all are measured in
several processes, and the middle one counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from statistics import median
from typing import Any

from searching.runs import THREADS, Found, led
from searching.tasks import TASKS
from tilesmith.measure.calibrate.calibrate import ceilings
from tilesmith.measure.local import LocalRunner
from tilesmith.measure.result import Job, Purpose
from tilesmith.measure.timing.method import CONFIRM_PLAN
from tilesmith.measure.timing.race import evened
from tilesmith.measure.timing.timer import Timer
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.apply.tiers import analytic_pick

Entry = tuple[str, Found]  # sketch and config

ANALYTIC = "analytic"
LONG = 2000  # trials of the runs that are made for the best known
EARLIER = 24  # different contenders of other versions of the code: the fastest as recorded
PROCESSES = 3  # in which all are measured, one after the other
# more thorough than a confirmation; the figures of the slower ones count, too, and of those whose times are far apart. A few
# rounds are enough for what is far behind: of a task that all measures use, 700 candidates led at some mark of some run
PLAN = replace(CONFIRM_PLAN, shortest=10e-3, race=3, lost=1.1, patience=inf, unstable=inf)


class ThoroughTimer(Timer):
    """Times all contenders but the slowest to the end."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, confirm_plan=PLAN)


def contest(task: str, runs: dict[str, Found], earlier: dict[str, Found]) -> Found:
    """{"seconds": name of run -> seconds of its winner, name@mark -> of what led then, "known": of the best known}; what the
    analytic model picks without a trial is among them. `earlier`: runs of other versions of the code."""
    target = parse_target("host")
    described = Task.of(TASKS[task].program(), target, THREADS)
    pick = analytic_pick(described)
    entries: dict[str, Entry] = {ANALYTIC: (pick.sketch.text if pick.sketch.steps else "", dict(pick.config))}
    long = {key: found for key, found in earlier.items() if found["trials"] >= LONG}
    entries |= _winners(runs, len(runs)) | _winners(long, len(long)) | _winners(earlier, EARLIER)
    short = {key: found for key, found in runs.items() if found["trials"] < LONG}  # nobody asks what led in long ones
    leaders = {
        f"{key}@{mark}": of_mark for key, found in short.items() for mark, of_mark in led(found).items() if of_mark
    }
    all_entries = [*entries.values(), *chain.from_iterable(leaders.values())]
    taken = measured(described, target.text, list(dict.fromkeys(map(_text, all_entries))))
    seconds = {name: median(taken[_text(entry)]) for name, entry in entries.items()}
    chosen = {name: _chosen([taken[_text(entry)] for entry in of_mark]) for name, of_mark in leaders.items()}
    return {"seconds": seconds | chosen, "known": _best(list(taken.values()))}


def _best(contenders: Sequence[Sequence[float]]) -> float:
    """Seconds of what is the fastest in all processes but one, in that one: the middle of these figures. Who failed in one
    process is not asked."""
    contenders = [seconds for seconds in contenders if max(seconds) < inf]
    return median(
        min(contenders, key=lambda seconds: median([*seconds[:place], *seconds[place + 1 :]]))[place]
        for place in range(len(contenders[0]))
    )


def _chosen(contenders: Sequence[Sequence[float]]) -> float:
    """Seconds of what is the fastest in the first process, in the others."""
    best = min(contenders, key=lambda seconds: seconds[0])
    return median(best[1:])


def _winners(runs: dict[str, Found], count: int) -> dict[str, Entry]:
    """(sketch, config) of the winners of the runs that found the fastest, so many different ones."""
    ranked = sorted((key for key in runs if runs[key]["winner"]), key=lambda key: runs[key]["winner"]["seconds"])
    entries = {key: (runs[key]["winner"]["sketch"], runs[key]["winner"]["config"]) for key in ranked}
    different = list(dict.fromkeys(map(_text, entries.values())))[:count]
    return {key: entry for key, entry in entries.items() if _text(entry) in different}


def _text(entry: Entry) -> str:
    return json.dumps(entry, sort_keys=True)


def measured(task: Task, target: str, entries: Sequence[str]) -> dict[str, list[float]]:
    """Seconds of each in several processes, in turns in each; infinity for what does not run (any more)."""
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
    return found | {entry: list(of_one) for entry, of_one in zip(ran, even, strict=True)}
