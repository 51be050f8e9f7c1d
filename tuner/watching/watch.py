"""The protocol of those who watch a search, and what they are told. `progress.Live` shows it to a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, runtime_checkable

from ...measure.result import Measurement
from ...targets.ceilings import Ceilings
from ..budget import Budget
from ..roofline import Work


@dataclass(frozen=True)
class Before:
    """Holds what a run had done before it was cut short; a new one, nothing."""

    trials: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)  # how many, by kind
    best: float = inf  # seconds
    spent: float = 0.0  # seconds of work
    known: float = inf  # seconds of the best of all runs before


NOTHING = Before()


@dataclass(frozen=True)
class Sitting:
    """Tells of a run that begins, or goes on where it was cut short.

    Attributes:
        before: counts towards the budget.
        task: the key of the task in the database.
        workers: who builds and times, in words.
    """

    title: str
    work: Work
    ceilings: Ceilings
    budget: Budget
    before: Before = NOTHING
    task: str = ""
    workers: str = ""


@dataclass(frozen=True)
class Whole:
    """Several kernels that are one model: how often each is called, and where, in words."""

    name: str
    counts: Sequence[float]
    places: Sequence[str]


class Watcher(Protocol):
    """Hears what a search tells while it runs."""

    def begin(self, sitting: Sitting) -> None:
        """A search starts, or goes on."""
        ...

    def trial(self, measurement: Measurement) -> None:
        """A new trial has ended."""
        ...

    def end(self) -> None:
        """The search is over, however it ended."""
        ...


@runtime_checkable
class RaceWatcher(Protocol):
    """Hears besides what is done when the trials of a model are over: its kernels are timed inside of it."""

    def racing(self, doing: str, percent: int) -> None:
        """Shows how much of something is done."""
        ...


class Silent:
    """A watcher that shows nothing."""

    def begin(self, sitting: Sitting) -> None:
        """Does nothing."""

    def trial(self, measurement: Measurement) -> None:
        """Does nothing."""

    def end(self) -> None:
        """Does nothing."""
