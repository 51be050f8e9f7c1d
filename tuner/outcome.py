"""What `tune` gives back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..common.notebook import rows_html
from ..measure.result import Purpose
from .display import program_title
from .records.data import Record, TaskIdentity
from .units import time_text


@dataclass(frozen=True, slots=True)
class Spent:
    """Says where the time went, in seconds. Building and measuring overlap: the parts may add up to more than `wall`."""

    wall: float
    search: float  # choosing candidates, learning from results
    compile: float
    check: float
    measure: float

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.wall + other.wall,
            self.search + other.search,
            self.compile + other.compile,
            self.check + other.check,
            self.measure + other.measure,
        )

    @staticmethod
    def on(records: Iterable[Record], wall: float, search: float) -> Spent:
        """Adds up what the trials took."""
        ended = [record.trial.measurement for record in records]
        return Spent(
            wall,
            search,
            sum(m.compile_seconds for m in ended),
            sum(m.check_seconds for m in ended),
            sum(m.measure_seconds for m in ended),
        )


@dataclass(frozen=True, slots=True, repr=False)
class TaskResult:
    """The result on one task. `best` is the best known on this machine, perhaps from an earlier run; None: nothing ran."""

    task: TaskIdentity
    best: Record | None
    records: Sequence[Record]  # of this run, in the order of measurement
    spent: Spent
    interrupted: bool
    exhausted: int | None = None  # the configs that were measured in all, where the search found no others to try

    def __repr__(self) -> str:
        best = "nothing ran" if self.best is None else f"best {time_text(self.best.seconds)} (record {self.best.id})"
        ended = ", interrupted" if self.interrupted else ""
        trials = sum(record.trial.purpose is Purpose.SEARCH for record in self.records)
        return f"<TaskResult {self.task.key[:8]}: {best}, {trials} trials in {self.spent.wall:.1f} s{ended}>"


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """The results of all tasks, in the order of the programs."""

    tasks: tuple[TaskResult, ...]

    @property
    def best(self) -> Record | None:
        """The best record of the first task (the only one, where one program was tuned)."""
        return self.tasks[0].best

    @property
    def records(self) -> list[Record]:
        """All records of this run."""
        return [record for task in self.tasks for record in task.records]

    @property
    def spent(self) -> Spent:
        """Says where the time went, over all tasks."""
        return sum((task.spent for task in self.tasks), Spent(0, 0, 0, 0, 0))

    @property
    def interrupted(self) -> bool:
        """Says whether it was ended by ctrl-C; the same call continues it."""
        return any(task.interrupted for task in self.tasks)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.tasks)).replace("TaskResult", "TuneResult")

    def _repr_html_(self) -> str:
        """Returns a line for each task, for notebooks."""
        headings = ("task", "program", "best", "record", "trials", "failed", "seconds")
        ended = " (interrupted: the same call continues it)" if self.interrupted else ""
        return rows_html(f"{len(self.tasks)} tuned{ended}", headings, map(_cells, self.tasks))


def _cells(result: TaskResult) -> tuple[str, ...]:
    searched = [record for record in result.records if record.trial.purpose is Purpose.SEARCH]
    failed = sum(not record.trial.measurement.ok for record in searched)
    best = ("nothing ran", "") if result.best is None else (time_text(result.best.seconds), str(result.best.id))
    return (
        result.task.key[:8],
        program_title(result.task.display),
        *best,
        str(len(searched)),
        str(failed),
        f"{result.spent.wall:.1f}",
    )
