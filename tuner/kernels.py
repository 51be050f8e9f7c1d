"""The tasks of a program that is cut into several kernels.

A program that is cut into few kernels, of which one at most has a product with reuse or runs by tiles, is one task: its records
are of all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..graph.partition.partition import Partition, partition
from ..schedules.access import is_anchor
from ..schedules.rules.cpu.overlap import groups_of
from ..schedules.task import Task
from ..targets.target import Target
from ..tensor.accuracy import Accuracy
from ..tensor.program import Program

FEW = 4  # kernels of a program that is searched whole


def parts_of(program: Program, target: Target) -> Partition | None:
    """The kernels of a program that is not scheduled as one task; None for one that is, as all are for GPUs."""
    if target.is_gpu or len(program.stages) <= 1:
        return None
    found = partition(program)
    heavy = sum(any(map(is_anchor, kernel.stages)) or bool(groups_of(kernel, ())) for kernel in found.kernels)
    return found if len(found.kernels) > FEW or heavy > 1 else None


@dataclass(frozen=True)
class Kernels:
    """The tasks of a partition, equal ones once, and which of them each kernel is."""

    partition: Partition
    tasks: tuple[Task, ...]
    number: tuple[int, ...]  # of the task, for each kernel

    @staticmethod
    def of(parts: Partition, target: Target, threads: int, accuracy: Accuracy) -> Kernels:
        """The tasks of these kernels."""
        found: dict[str, int] = {}
        tasks: list[Task] = []
        numbers = []
        for kernel in parts.kernels:
            task = Task.of(kernel, target, threads, accuracy, in_model=True)
            if task.text not in found:
                found[task.text] = len(tasks)
                tasks.append(task)
            numbers.append(found[task.text])
        return Kernels(parts, tuple(tasks), tuple(numbers))

    def first(self, number: int) -> Program:
        """The first kernel that is a task, with the names of the program."""
        return self.partition.kernels[self.number.index(number)]


@dataclass(frozen=True, slots=True)
class TunedTask:
    """A task of a search: the program that it is of, with the names of its model, and how often it is needed."""

    program: Program
    task: Task
    count: float


@dataclass(frozen=True, slots=True)
class TunedTasks:
    """The tasks of a search, those of kernels once, and the kernels of each of its programs: None for one that is not cut."""

    tasks: list[TunedTask]
    kernels: list[Kernels | None]


def tuned_tasks(
    programs: Sequence[Program],
    weights: Sequence[float],
    target: Target,
    threads: int,
    accuracy: Accuracy,
    *,
    whole: bool = False,
) -> TunedTasks:
    """Lists the tasks of a search of some programs: kernels stand for what is cut, unless all are wanted `whole`. Errors: those
    of `Task.of`."""
    found: dict[str, int] = {}
    tasks: list[TunedTask] = []
    of_each: list[Kernels | None] = []
    for program, weight in zip(programs, weights, strict=True):
        parts = parts_of(program, target) if isinstance(program, Program) and not whole else None
        of_each.append(None if parts is None else Kernels.of(parts, target, threads, accuracy))
        if (kernels := of_each[-1]) is None:
            tasks.append(TunedTask(program, Task.of(program, target, threads, accuracy), weight))
            continue
        for number, task in enumerate(kernels.tasks):
            place = found.setdefault(task.key, len(tasks))
            if place == len(tasks):
                tasks.append(TunedTask(kernels.first(number), task, 0.0))
            more = weight * kernels.number.count(number)
            tasks[place] = replace(tasks[place], count=tasks[place].count + more)
    return TunedTasks(tasks, of_each)
