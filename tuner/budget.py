"""What a search may spend."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

from ..common.errors import BudgetError
from .effort import NORMAL, Effort


@dataclass(frozen=True, slots=True)
class Budget:
    """Says where a search ends: after `trials` new measurements, after `seconds` of wall time, or whatever comes first.

    None means no limit of this kind; one of the two is always given.

    Raises:
        BudgetError: a limit is zero, negative or no number, or there is none.
    """

    trials: int | None
    seconds: float | None = None
    grace: float = NORMAL.grace  # share of `seconds` after their end in which what is in flight may still come home

    def __post_init__(self) -> None:
        if self.trials is None and self.seconds is None:
            raise BudgetError("a search needs a limit", advice="give trials, seconds, or both")
        limits: dict[str, Any] = {"trials": self.trials, "seconds": self.seconds}
        for name, value in limits.items():
            if isinstance(value, bool) or not isinstance(value, Real | None):
                raise BudgetError(f"{name} is no number", expected=f"{name} > 0", found=repr(value)[:80])
            if value is not None and not (isfinite(value) and float(value) > 0):
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
        """Returns what the caller gave; the effort's number of trials when nothing was given."""
        return cls(effort.trials if trials is None and seconds is None else trials, seconds, effort.grace)

    def patience(self, spent: float) -> float | None:
        """Seconds to wait for what is in flight; None: as long as it takes."""
        return None if self.seconds is None else max(self.seconds * (1 + self.grace) - spent, 0.0)

    def trials_left(self, done: int) -> int:
        """New measurements still allowed, when `done` were made."""
        return 1 << 62 if self.trials is None else max(int(self.trials) - done, 0)

    def over(self, done: int, spent: float) -> bool:
        """Says whether `done` trials in `spent` seconds use it up."""
        return self.trials_left(done) == 0 or (self.seconds is not None and spent >= self.seconds)
