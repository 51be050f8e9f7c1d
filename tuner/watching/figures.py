"""How far a search is, in numbers: trials, the best, failures, time left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from time import monotonic

from ...measure.result import Measurement
from ...targets.ceilings import Ceilings
from ..budget import Budget
from ..roofline import Work
from .watch import Before


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """Tells how far a search is, from whatever is known of it; its line is what a terminal shows, here and by `tune watch`.

    Attributes:
        trials, seconds: the budget; None where there is no such limit, or where others share it.
        each: seconds of a trial lately; None before the first.
    """

    trials: int | None
    seconds: float | None
    done: int
    failed: int
    best: float
    spent: float
    each: float | None

    @property
    def share(self) -> float:
        """Says how much of the budget is used, 0 to 1: of trials or of time, whichever will end first."""
        shares = [0.0]
        if self.trials:
            shares.append(self.done / self.trials)
        if self.seconds:
            shares.append(self.spent / self.seconds)
        return min(1.0, max(shares))

    def seconds_left(self) -> float | None:
        """An estimate from the speed so far; None before the first trial."""
        left = []
        if self.seconds:
            left.append(self.seconds - self.spent)
        if self.trials and self.each is not None:
            left.append((self.trials - self.done) * self.each)
        return max(0.0, min(left)) if left else None

    def line(self, work: Work, ceilings: Ceilings, *, short: bool = False) -> str:
        """`57/128 trials, best 312.4 GFLOP/s (84.1% of the ceiling), 3 failed, 0:21 left`, or `57/128, ... (84.1%), ...`."""
        parts = [self.trials_text(short=short)]
        if self.best < float("inf"):
            speed = work.speed(self.best, ceilings)
            parts.append(f"best {speed} ({speed.share:.1%}{'' if short else f' of {speed.of}'})")
        return ", ".join([*parts, *self.rest_texts()])

    def trials_text(self, *, short: bool = False) -> str:
        """`57/128 trials`, or `57/128`."""
        trials = f"{self.done}/{self.trials}" if self.trials else f"{self.done}"
        return trials if short else f"{trials} trial{'' if trials == '1' else 's'}"

    def rest_texts(self) -> list[str]:
        """`3 failed`, and `0:21 left` where that is known."""
        left, failed = self.seconds_left(), f"{self.failed} failed"
        if left is None or self.share >= 1:
            return [failed]
        return [failed, f"{int(left) // 60}:{int(left) % 60:02} left"]


class SearchState:
    """Counts the trials and failures of a running search. `budget`: None where it is shared with other searches."""

    def __init__(self, title: str, work: Work, ceilings: Ceilings, budget: Budget | None, before: Before) -> None:
        self.title = title
        self.work, self._ceilings = work, ceilings
        self._trials, self._seconds = (None, None) if budget is None else (budget.trials, budget.seconds)
        self._before, self.done = before.trials, before.trials
        self.failures, self.best = Counter(before.failures), before.best
        self._start = monotonic()
        self._spent_before = before.spent

    def take(self, measurement: Measurement) -> bool:
        """Counts a trial; says whether it is the best so far."""
        self.done += 1
        if not measurement.ok:
            self.failures[str(measurement.status)] += 1
        better = measurement.seconds < self.best
        self.best = min(self.best, measurement.seconds)
        return better

    def figures(self) -> SearchFigures:
        """Tells how far it is now."""
        taken, made = monotonic() - self._start, self.done - self._before
        return SearchFigures(
            self._trials, self._seconds, self.done, self.failures.total(), self.best, self._spent_before + taken,
            taken / made if made else None,
        )  # fmt: skip

    @property
    def share(self) -> float:
        """See `SearchFigures.share`."""
        return self.figures().share

    @property
    def permille(self) -> int:
        """`share` as the bar wants it."""
        return round(1000 * self.share)

    def seconds_left(self) -> float | None:
        """See `SearchFigures.seconds_left`."""
        return self.figures().seconds_left()

    def line(self, *, short: bool = False) -> str:
        """See `SearchFigures.line`."""
        return self.figures().line(self.work, self._ceilings, short=short)
