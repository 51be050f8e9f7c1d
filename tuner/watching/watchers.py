"""The watchers of a search that a person asked for."""

from __future__ import annotations

import sys

from ...common.errors import ArgumentError
from .watch import Silent, Watcher, Whole


def watchers_of(progress: bool | Watcher, count: int, whole: Whole | None = None) -> list[Watcher]:
    """A person's choice as a watcher for each task; loads what draws on a terminal only if it is wanted.

    `whole`: what the tasks are together, where they are one model.
    """
    if not isinstance(progress, bool):
        if not hasattr(progress, "begin"):
            raise ArgumentError(
                "progress is no watcher", expected="True, False or a Watcher", found=repr(progress)[:80]
            )
        return [progress] * count
    if not progress or sys.stderr is None or sys.stderr.closed:  # as of a program without a console
        return [Silent()] * count
    if whole is not None:
        from .model_progress import ModelProgress

        return ModelProgress(whole).watchers()
    from .progress import Live, ProgressBoard

    board = ProgressBoard(shared=count > 1)
    return [Live(board=board) for _ in range(count)]
