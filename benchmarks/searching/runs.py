"""One search on a task, as the benchmark keeps it: how the best so far fell, where the time went, what won.

A run may be cut at any trial and continued by a later call, because its database is kept until it is finished.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads import Row

from searching.store import ROOT
from searching.tasks import TASKS
from tilesmith.measure.compare.noise import Others
from tilesmith.measure.machine import machine_key
from tilesmith.measure.result import Measurement, Purpose
from tilesmith.tuner.effort import ABLATIONS, NORMAL, Effort, ablated
from tilesmith.tuner.outcome import TuneResult
from tilesmith.tuner.records.data import Record
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.tune import tune
from tilesmith.tuner.watching.watch import Silent

SCRATCH = Path(__file__).parents[1] / "results" / "scratch"  # databases of runs that are not finished
THREADS = 2
EVERY = 50  # trials between two looks at the memory
PAGE = 4096
MARKS = (16, 32, 64, 128)  # trials after which the best so far is looked at
CONTENDERS = 4  # of each mark, among which a confirmation would choose
DISTURBED = 0.05  # of the processors that went to others; in three quiet runs of 2,000 trials 0.0015 to 0.003

Found = dict[str, Any]


class Cut(Silent):
    """Ends a search as ctrl-C would once its time is over, and watches how much memory it takes."""

    def __init__(self, end: float) -> None:
        self.end_at, self.trials = end, 0
        self.memory: list[tuple[int, int, int]] = []  # trials, bytes of this process, bytes of its children

    def trial(self, measurement: Measurement) -> None:
        """See Watcher."""
        if self.trials % EVERY == 0:
            self.memory.append((self.trials, resident("self"), sum(map(resident, children()))))
        self.trials += 1
        if time.monotonic() > self.end_at:
            raise KeyboardInterrupt


@dataclass(frozen=True)
class Plan:
    """A run to make. `label`: a strategy, or a key of ABLATIONS."""

    task: str
    label: str
    seed: int
    trials: int
    before: str = ""  # a database whose trials are known already
    again: int = 0  # how many equal runs went before
    rows: dict[str, Row] = field(default_factory=lambda: TASKS, compare=False)

    @property
    def key(self) -> str:
        """The key by which it is found."""
        return f"{self.task}|{self.label}|{self.seed}|{self.trials}" + (f"|{self.again}" if self.again else "")

    @property
    def strategy(self) -> str:
        """The strategy that `tune` is given."""
        return "guided" if self.label in (*ABLATIONS, "transfer") else self.label

    @property
    def effort(self) -> Effort:
        """The effort that `tune` is given."""
        return ablated(NORMAL, self.label) if self.label in ABLATIONS else NORMAL

    @property
    def database(self) -> Path:
        """Says where it is kept while it is not finished."""
        return SCRATCH / (machine_key(self.key)[:16] + ".sqlite")


Also = Callable[[Plan, TuneResult, Database], Found]  # what else is to be kept of a run


def run(plan: Plan, end: float, also: Also | None = None) -> Found | None:
    """The search, or its next part; None when it was cut at `end` (a time of `monotonic`).

    What was disturbed is done again, once: its figures would tell of the machine.
    """
    found = attempt(plan, end, also)
    if found is not None and found["others"] > DISTURBED:
        return attempt(plan, end, also)
    return found


def attempt(plan: Plan, end: float, also: Also | None = None) -> Found | None:
    """Works as `run`, whether or not it was disturbed; `others` is the share of the processors that others took meanwhile."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    if plan.before and not plan.database.exists():
        plan.database.write_bytes(Path(plan.before).read_bytes())
    watcher, others = Cut(end), Others()
    result = tune(
        plan.rows[plan.task].program(), threads=THREADS, trials=plan.trials, strategy=plan.strategy, seed=plan.seed,
        effort=plan.effort, db=plan.database, progress=watcher,
    )  # fmt: skip
    if result.interrupted:
        return None
    with Database(plan.database) as database:
        found = described(plan, result, database) | (also(plan, result, database) if also else {})
    found |= {"memory": watcher.memory, "others": round(others.share(), 4)}
    forget(plan.database)
    return found


def forget(database: Path) -> None:
    """Removes a database with what SQLite keeps beside it."""
    for path in database.parent.glob(database.name + "*"):
        path.unlink()


def described(plan: Plan, result: TuneResult, database: Database) -> Found:
    """All that is kept of a finished run."""
    spent, best = result.spent, result.best
    searched = [r for r in result.records if r.trial.purpose is Purpose.SEARCH]
    drafted = searched[: plan.effort.draft.first]
    return {
        "task": plan.task, "label": plan.label, "seed": plan.seed, "trials": len(searched),
        "curve": curve(searched),
        "first": round(searched[0].trial.elapsed, 3) if searched else None,
        "spent": {n: round(getattr(spent, n), 3) for n in ("wall", "search", "compile", "check", "measure")},
        "failures": dict(Counter(str(r.trial.measurement.status) for r in searched if not r.trial.measurement.ok)),
        "drafted": [len(drafted), sum(not r.trial.measurement.ok for r in drafted)],
        "abandoned": sum(r.trial.measurement.abandoned for r in searched),
        "winner": winner(best, database) if best else None, "leaders": leaders(searched, database),
        "commit": commit(), "when": round(time.time()),
    }  # fmt: skip


def curve(searched: Sequence[Record]) -> list[tuple[int, float, float]]:
    """(trials, seconds since the start, seconds of the best) wherever the best so far fell."""
    steps: list[tuple[int, float, float]] = []
    for count, record in enumerate(searched, 1):
        if record.seconds < (steps[-1][2] if steps else float("inf")):
            steps.append((count, round(record.trial.elapsed, 3), float(f"{record.seconds:.5g}")))
    return steps


def winner(record: Record, database: Database) -> Found:
    """A record as a job needs it."""
    sketch = database.sketch(record.trial.sketch)
    return {"sketch": sketch.text if sketch else "", "config": record.config, "seconds": record.seconds}


def leaders(searched: Sequence[Record], database: Database) -> Found:
    """{"marks": {mark: [(number of a sketch, config), best first]}, "sketches": texts}, for marks before the end."""
    sketches: dict[str, int] = {}
    marks: dict[str, list[tuple[int, Found]]] = {}
    for mark in MARKS:
        if mark < len(searched):
            ranked = sorted(searched[:mark], key=lambda record: record.seconds)[:CONTENDERS]
            of_mark = [winner(record, database) for record in ranked if record.trial.measurement.ok]
            marks[str(mark)] = [(sketches.setdefault(w["sketch"], len(sketches)), w["config"]) for w in of_mark]
    return {"marks": marks, "sketches": list(sketches)}


def led(found: Found) -> dict[int, list[tuple[str, Found]]]:
    """Mark -> (sketch, config) of what led then, as `leaders` kept it; nothing of runs of older code."""
    kept = found.get("leaders", {"marks": {}})
    return {
        int(mark): [(kept["sketches"][number], config) for number, config in of_mark]
        for mark, of_mark in kept["marks"].items()
    }


def best_after(found: Found, trials: int) -> float:
    """Seconds of the best of the first trials of a run, as recorded; infinity when none of them ran."""
    return min((seconds for count, _, seconds in found["curve"] if count <= trials), default=float("inf"))


def commit() -> str:
    """The commit that runs, with a + where files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return said.stdout.strip()


def children() -> list[str]:
    """Process ids of this process's children."""
    return [pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]


def resident(pid: str) -> int:
    """Bytes of memory that a process holds; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE
    except (OSError, IndexError):
        return 0
