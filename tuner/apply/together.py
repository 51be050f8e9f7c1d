"""The candidates of many tasks, picked and built by several processes: one process holds one lock for its LLVM.

What a pick needs on the way is many small objects, and Python gives little of their memory back. So this process picks nothing
itself where helpers keep all cores busy, and has what a model needs, not what its making needed.

Helpers are new interpreters, never forks, and do not import the caller's main module. One that dies leaves its tasks to this
process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from ...codegen.artifact import Artifact
from ...codegen.rows import ArgumentRows
from ...measure.process.child import Child, child_setup
from ...measure.process.station import answer_of
from ...measure.process.worker import Link
from ...schedules.task import Task
from ...targets.host import usable_cores
from .first_built import first_built, first_known
from .pick import Pick

Asked = tuple[Task, ArgumentRows]
BuiltPick = tuple[Pick, Artifact]
WORTH = 4  # tasks: a helper takes about a second to start, a task about as long


def first_built_of(
    tasks: Sequence[Task], db: str | Path | None, *, strict: bool, rows: Sequence[ArgumentRows] | None = None
) -> list[BuiltPick]:
    """`first_built` of each task, in order, with the `rows` of each. Errors: those of `first_built`."""
    asked = list(zip(tasks, [()] * len(tasks) if rows is None else rows, strict=True))
    known = {n: first_known(task, db, strict=strict, rows=own) for n, (task, own) in enumerate(asked)}
    found: dict[int, BuiltPick] = {number: built for number, built in known.items() if built is not None}
    left = [number for number in range(len(tasks)) if number not in found]
    cores = usable_cores()
    helpers = min(len(left) // WORTH, cores)
    if helpers > 0:
        waiting: SimpleQueue[int] = SimpleQueue()
        for number in left:
            waiting.put(number)
        threads = [Thread(target=_serve, args=(asked, db, strict, waiting, found), daemon=True) for _ in range(helpers)]
        for thread in threads:
            thread.start()
        try:
            for number in _left(waiting) if helpers < cores else ():
                found[number] = _here(asked[number], db, strict)
            for thread in threads:
                thread.join()
        finally:
            deque(_left(waiting), maxlen=0)  # where a person stops it, helpers end after what they are at
    return [found.get(n) or _here(one, db, strict) for n, one in enumerate(asked)]


def _here(asked: Asked, db: str | Path | None, strict: bool) -> BuiltPick:
    task, rows = asked
    return first_built(task, db, strict=strict, rows=rows)


def _left(waiting: SimpleQueue[int]) -> Iterator[int]:
    """Returns what nobody has taken yet."""
    while True:
        try:
            yield waiting.get_nowait()
        except Empty:
            return


def _serve(
    asked: Sequence[Asked], db: str | Path | None, strict: bool, waiting: SimpleQueue[int], found: dict[int, BuiltPick]
) -> None:
    """Hands tasks to one helper, until there are none or it is gone. What it fails with is met again in this process."""
    helper = Child(child_setup(f"{__name__}:Helper", {}), {})
    try:
        for number in _left(waiting):
            task, rows = asked[number]
            helper.send((task.program, task.target, task.threads, task.accuracy, task.in_model, rows, db, strict))
            answer = _answer(helper)
            if answer is not None:
                found[number] = answer
            if helper.ended:
                return
    finally:
        helper.close()


def _answer(helper: Child) -> BuiltPick | None:
    """Returns what a helper says to its task; None where it failed, or is gone."""
    answer = answer_of(helper)
    return None if answer is None else answer.value


class Helper:
    """The handler of a helper (`measure/process/worker.py`)."""

    def handle(self, request: tuple[Any, ...], link: Link) -> BuiltPick | None:
        """A task's candidate; None where there is none: the caller meets the error again, with its traceback."""
        program, target, threads, accuracy, in_model, rows, db, strict = request
        try:
            return _here((Task(program, target, threads, accuracy, in_model), rows), db, strict)
        except Exception:
            return None
