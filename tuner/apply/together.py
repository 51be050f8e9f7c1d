"""The candidates of many tasks, picked and built by several processes: one process holds one lock for its LLVM.

Helpers are new interpreters, never forks, and do not import the caller's main module. One that dies leaves its tasks to this
process.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any

from ...codegen.artifact import Artifact
from ...common.interpreters import interpreter
from ...schedules.task import Task
from ...targets.host import usable_cores
from .first_built import first_built, first_known
from .pick import Pick

Built = tuple[Pick, Artifact]
WORTH = 4  # tasks: a helper takes about a second to start, a task about as long


def first_built_of(tasks: Sequence[Task], db: str | Path | None, *, strict: bool) -> list[Built]:
    """`first_built` of each task, in order. Errors: those of `first_built`."""
    known = {number: first_known(task, db, strict=strict) for number, task in enumerate(tasks)}
    found: dict[int, Built] = {number: built for number, built in known.items() if built is not None}
    left = [number for number in range(len(tasks)) if number not in found]
    helpers = min(len(left) // WORTH, usable_cores() - 1)
    if helpers > 0:
        waiting: SimpleQueue[int] = SimpleQueue()
        for number in left:
            waiting.put(number)
        threads = [Thread(target=_serve, args=(tasks, db, strict, waiting, found), daemon=True) for _ in range(helpers)]
        for thread in threads:
            thread.start()
        for number in _left(waiting):
            found[number] = first_built(tasks[number], db, strict=strict)
        for thread in threads:
            thread.join()
    return [found.get(n) or first_built(task, db, strict=strict) for n, task in enumerate(tasks)]


def _left(waiting: SimpleQueue[int]) -> Iterator[int]:
    """Returns what nobody has taken yet."""
    while True:
        try:
            yield waiting.get_nowait()
        except Empty:
            return


def _serve(
    tasks: Sequence[Task], db: str | Path | None, strict: bool, waiting: SimpleQueue[int], found: dict[int, Built]
) -> None:
    """Hands tasks to one helper, until there are none or it is gone. What it fails with is met again in this process."""
    with (
        suppress(OSError, EOFError, pickle.UnpicklingError),
        subprocess.Popen(
            interpreter(__name__, "_help()"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        ) as helper,
    ):
        assert helper.stdin is not None and helper.stdout is not None
        try:
            for number in _left(waiting):
                task = tasks[number]
                _send(helper.stdin, (task.program, task.target, task.threads, task.accuracy, db, strict))
                answer = pickle.load(helper.stdout)
                if answer is not None:
                    found[number] = answer
        finally:
            helper.kill()


def _send(stream: IO[bytes], message: Any) -> None:
    pickle.dump(message, stream)
    stream.flush()


def _help() -> None:
    """A helper's life: tasks come by its standard input, candidates go out by its standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no answer
    while True:
        try:
            program, target, threads, accuracy, db, strict = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Built | None = first_built(Task(program, target, threads, accuracy), db, strict=strict)
        except Exception:  # the caller meets it again, with its traceback
            answer = None
        _send(answers, answer)
