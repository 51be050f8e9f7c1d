"""The tasks of a program that is cut into several kernels.

A program that is cut into few kernels, of which one at most has a product with reuse or runs by tiles, is one task: its records
are of all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
            task = Task.of(kernel, target, threads, accuracy)
            if task.text not in found:
                found[task.text] = len(tasks)
                tasks.append(task)
            numbers.append(found[task.text])
        return Kernels(parts, tuple(tasks), tuple(numbers))

    def first(self, number: int) -> Program:
        """The first kernel that is a task, with the names of the program."""
        return self.partition.kernels[self.number.index(number)]


def tuned_apart(
    programs: Sequence[Program], weights: Sequence[float], target: Target, threads: int, accuracy: Accuracy
) -> tuple[list[Program], list[float]]:
    """The programs whose tasks a search has, equal ones once, and how often each is needed: kernels stand for what is cut."""
    found: dict[str, int] = {}
    tasks: list[Program] = []
    counts: list[float] = []
    for program, weight in zip(programs, weights, strict=True):
        parts = parts_of(program, target) if isinstance(program, Program) else None
        if parts is None:
            tasks.append(program)
            counts.append(weight)
            continue
        kernels = Kernels.of(parts, target, threads, accuracy)
        for number, task in enumerate(kernels.tasks):
            place = found.setdefault(task.text, len(tasks))
            if place == len(tasks):
                tasks.append(kernels.first(number))
                counts.append(0.0)
            counts[place] += weight * kernels.number.count(number)
    return tasks, counts
