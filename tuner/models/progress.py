"""Live progress of the search of a whole model: one line for all of its kernels.

It says which layer was just measured, what the whole model would run at now, and how much of that no ceiling accounts for. On a
terminal the line changes in place; elsewhere one is written whenever the model's time has got better by some percent.
"""

from __future__ import annotations

from math import inf

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from ...measure.result import Measurement
from ...targets.ceilings import Ceilings
from ..budget import Budget
from ..progress import SearchFigures, SearchState
from ..roofline import Work
from ..terminal import make_console
from ..units import time_text
from ..watch import NOTHING, Before, Watcher, Whole
from .tasks import Standing

_TOLD = 0.98  # of the time that was told last: what is worth another line
_NO_WORK = Work((), 0)
_MARGIN = 3  # columns of the spinner


def model_line(figures: SearchFigures, standing: Standing, first: float, place: str = "") -> str:
    """`57/2000 trials, 9.84 ms now (12.1 ms at first), 34% of it open, 3 failed, 0:21 left; layer1.0: conv1`."""
    parts = [figures.trials_text()]
    if standing.whole:
        parts.append(f"{time_text(standing.seconds)} now ({time_text(first)} at first)")
        parts.append(f"{standing.open:.0%} of it open")
    else:
        parts.append(f"{standing.known} of {len(standing.best)} kernels measured")
    return ", ".join([*parts, *figures.rest_texts()]) + (f"; {place}" if place else "")


class ModelProgress:
    """Shows the search of a model; each of its kernels has a watcher of its own."""

    def __init__(self, whole: Whole, console: Console | None = None) -> None:
        self._whole = whole
        self._console = console or make_console(stderr=True)
        self._standing = Standing.of(whole.counts)
        self._began: list[tuple[Ceilings, Budget, Before]] = []
        self._state: SearchState | None = None
        self._first = 0.0  # seconds of the model when each kernel had a time
        self._told = inf
        self._place = ""  # of the last trial
        self._ended = 0
        self._bar: Progress | None = None
        self._row = TaskID(0)

    def watchers(self) -> list[Watcher]:
        """One for each kernel, in order."""
        return [_Part(self, number) for number in range(len(self._whole.counts))]

    def begin(self, number: int, work: Work, ceilings: Ceilings, budget: Budget, before: Before) -> None:
        """The search of a kernel starts. All start before the first trial."""
        self._standing.least[number] = work.least_seconds(ceilings)
        self._standing.best[number] = min(before.best, before.known)
        self._began.append((ceilings, budget, before))
        if len(self._began) == len(self._whole.counts):
            self._open()

    def _open(self) -> None:
        ceilings, budget, _ = self._began[0]
        sittings = [before for _, _, before in self._began]
        together = Before(
            sum(one.trials for one in sittings),
            sum(one.failed for one in sittings),
            spent=max(one.spent for one in sittings),
        )
        self._state = SearchState(self._whole.name, _NO_WORK, ceilings, budget, together)
        self._first = self._standing.seconds if self._standing.whole else 0.0
        if self._console.is_terminal:
            columns = SpinnerColumn(), TextColumn("{task.description}", markup=False)
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
            self._row = self._bar.add_task(self._shown(), total=None)

    def trial(self, number: int, measurement: Measurement) -> None:
        """Counts a trial of a kernel and shows the new state."""
        if self._state is None:
            return
        self._state.take(measurement)
        best = self._standing.best
        best[number] = min(best[number], measurement.seconds)
        self._place = self._whole.places[number]
        if self._standing.whole and not self._first:
            self._first = self._standing.seconds
        if self._bar is not None:
            self._bar.update(self._row, description=self._shown())
        elif self._standing.whole and self._standing.seconds <= _TOLD * self._told:
            self._say()

    def end(self) -> None:
        """The search of a kernel is over; with the last one the line stands."""
        self._ended += 1
        if self._ended < len(self._whole.counts):
            return
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._place = ""
        if self._state is not None:
            self._say()

    def line(self) -> str:
        """See `model_line`."""
        assert self._state is not None
        return model_line(self._state.figures(), self._standing, self._first, self._place)

    def _shown(self) -> str:
        line, room = f"{self._whole.name}: {self.line()}", self._console.width - _MARGIN
        return line if len(line) <= room else line[: max(8, room - 1)] + "…"

    def _say(self) -> None:
        self._told = self._standing.seconds if self._standing.whole else inf
        self._console.print(Text(f"{self._whole.name}: {self.line()}"), soft_wrap=True)


class _Part:
    """The watcher of one kernel (implements `watch.Watcher`)."""

    def __init__(self, whole: ModelProgress, number: int) -> None:
        self._whole, self._number = whole, number

    def begin(self, title: str, work: Work, ceilings: Ceilings, budget: Budget, before: Before = NOTHING) -> None:
        """See `Watcher.begin`."""
        self._whole.begin(self._number, work, ceilings, budget, before)

    def trial(self, measurement: Measurement) -> None:
        """See `Watcher.trial`."""
        self._whole.trial(self._number, measurement)

    def end(self) -> None:
        """See `Watcher.end`."""
        self._whole.end()
