"""Who watches a search. `progress.Live` shows it to a person."""

from __future__ import annotations

from typing import Protocol

from ..measure.result import Measurement
from ..targets.ceilings import Ceilings
from .budget import Budget
from .roofline import Work


class Watcher(Protocol):
    """What a search tells while it runs."""

    def begin(self, title: str, work: Work, ceilings: Ceilings, budget: Budget, done: int = 0) -> None:
        """A search starts; `done` trials of its budget were made before it was cut short."""
        ...

    def trial(self, measurement: Measurement) -> None:
        """A new trial has ended."""
        ...

    def end(self) -> None:
        """The search is over, however it ended."""
        ...


class Silent:
    """A watcher that shows nothing."""

    def begin(self, title: str, work: Work, ceilings: Ceilings, budget: Budget, done: int = 0) -> None:
        """Nothing."""

    def trial(self, measurement: Measurement) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


def watchers_of(progress: bool | Watcher, count: int) -> list[Watcher]:
    """A person's choice as a watcher for each task; loads what draws on a terminal only if it is wanted."""
    if not isinstance(progress, bool):
        return [progress] * count
    if not progress:
        return [Silent()] * count
    from .progress import Board, Live

    board = Board(shared=count > 1)
    return [Live(board=board) for _ in range(count)]
