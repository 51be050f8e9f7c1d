"""What a search may spend, and how it spends it: the single place of every default number of a search."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from ..common.errors import ArgumentError, BudgetError


@dataclass(frozen=True, slots=True)
class Draft:
    """The first look at the space, by the prior alone."""

    population: int = 100_000  # valid configs scored, over all arms
    generations: int = 2  # of evolution on the prior after that: spaces are larger than any population
    children: int = 4096  # in each of them
    keep: int = 2048  # the best of all, with their features, from which later rounds also choose
    first: int = 24  # trials that are chosen by the prior alone
    slack: float = 2.0  # a drafted trial may be predicted to take this many times the best


@dataclass(frozen=True, slots=True)
class Rounds:
    """The search after the draft."""

    batch: int = 8  # trials between two fits of the model
    growth: int = 24  # with n results a batch has at least n / growth trials: the share of thinking stays bounded
    parents: int = 16  # leaders that have children
    children: int = 1536  # scored by the model in each generation
    generations: int = 2
    explore: float = 0.06  # share of trials that the model does not choose
    near: float = 0.3  # share of trials that are neighbours of the leaders
    leaders: int = 3  # around which neighbours are looked at
    patience: int = 3  # batches without a gain after which most trials are neighbours of the leaders
    hope: float = 2.0  # how much of the spread counts for a candidate: it is explored for what it might be


@dataclass(frozen=True, slots=True)
class Surrogates:
    """The search of spaces without a prior."""

    first: int = 16  # trials that fill the space
    filling: int = 400  # candidates from which they are chosen: corners of the whole space are no good start
    batch: int = 8  # trials between two fits
    growth: int = 24  # with n results a batch has at least n / growth trials
    near: int = 2  # of each batch: neighbours of the leaders
    leaders: int = 3
    pool: int = 20_000  # candidates that the forest scores
    shortlist: int = 5000  # the best of these, which the Gaussian process scores too: it is much slower
    trees: int = 40
    rows: int = 256  # results that a fit uses
    steps: int = 30  # trials for better hyperparameters in one fit


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is taken over from other tasks in the database."""

    shapes: int = 4  # of the same family: their best configs are tried, their trials are learned from
    reach: float = 64.0  # shapes whose extents differ by a larger factor in all say nothing
    records: int = 4  # the best of each shape, that are moved into this task's domains
    seeds: int = 6  # of all these, measured first
    others: int = 3  # tasks of other families whose trials are learned from
    rows: int = 200  # of each task


@dataclass(frozen=True, slots=True)
class Sharing:
    """How many tasks share one budget."""

    slice: int = 16  # trials in a row for one task
    window: int = 32  # trials whose gain says what comes next
    recent: float = 0.5  # weight of that gain; the rest is hope
    hope: float = 0.5  # the best of n trials is hoped to become better by this share of itself, over n, with one more
    patience: int = 64  # trials without a single success after which a task has to wait for all others


@dataclass(frozen=True, slots=True)
class Effort:
    """How thorough a search is where the caller does not say."""

    name: str
    trials: int
    draft: Draft = Draft()
    rounds: Rounds = Rounds()
    surrogates: Surrogates = Surrogates()
    sharing: Sharing = Sharing()
    transfer: Transfer = Transfer()
    members: int = 4  # of the learned model
    rows: int = 1500  # that one fit of the model may use
    confirm: int = 4  # contenders measured again, interleaved, before a winner is named
    margin: float = 1.10  # contenders are at most this much slower than the best


QUICK = Effort("quick", trials=32, draft=Draft(population=50_000, generations=1, first=12), members=3, confirm=3)
NORMAL = Effort("normal", trials=128)
FULL = Effort("full", trials=1000, draft=Draft(population=300_000, generations=4), rows=3000, confirm=8)
EFFORTS = {effort.name: effort for effort in (QUICK, NORMAL, FULL)}


def effort_named(name: str) -> Effort:
    """The preset of this name. Raises ArgumentError for any other."""
    if name not in EFFORTS:
        raise ArgumentError("unknown effort", expected="one of " + ", ".join(EFFORTS), found=repr(name))
    return EFFORTS[name]


GRACE = 0.1  # share of a time budget after its end in which what is in flight may still come home


@dataclass(frozen=True, slots=True)
class Budget:
    """Where a search ends: after `trials` new measurements, after `seconds` of wall time, or whatever comes first.

    None means no limit of this kind; one of the two is always given.

    Raises:
        BudgetError: a limit is zero, negative or no number, or there is none.
    """

    trials: int | None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.trials is None and self.seconds is None:
            raise BudgetError("a search needs a limit", advice="give trials, seconds, or both")
        for name, value in (("trials", self.trials), ("seconds", self.seconds)):
            if value is not None and not (isfinite(value) and value > 0):
                raise BudgetError(
                    f"a budget of {value} {name} allows nothing",
                    expected=f"{name} > 0",
                    found=str(value),
                    advice="leave it away for the default, or give a positive number",
                )
        if self.trials is not None and self.trials != int(self.trials):
            raise BudgetError("trials are counted in whole numbers", expected="an integer", found=str(self.trials))

    @classmethod
    def of(cls, trials: int | None, seconds: float | None, effort: Effort = NORMAL) -> Budget:
        """What the caller gave; the effort's number of trials when nothing was given."""
        return cls(effort.trials if trials is None and seconds is None else trials, seconds)

    def patience(self, spent: float) -> float | None:
        """Seconds to wait for what is in flight; None: as long as it takes."""
        return None if self.seconds is None else max(self.seconds * (1 + GRACE) - spent, 0.0)

    def trials_left(self, done: int) -> int:
        """New measurements still allowed, when `done` were made."""
        return 1 << 62 if self.trials is None else max(int(self.trials) - done, 0)

    def over(self, done: int, spent: float) -> bool:
        """Whether `done` trials in `spent` seconds use it up."""
        return self.trials_left(done) == 0 or (self.seconds is not None and spent >= self.seconds)
