"""Live progress of the search of a whole model: one line for all of its kernels.

It says which layer was just measured, what the whole model would run at now, and how much of that no ceiling accounts for. On a
terminal the line changes in place, and workers, failures and the slowest kernels stand below it, as `tune watch` shows them
(view.py); elsewhere a line is written whenever the model's time has got better by some percent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from rich.console import Console, RenderableType
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from ...measure.result import Measurement
from ...targets.ceilings import Ceilings
from ..roofline import Work
from ..terminal import make_console
from .figures import SearchState
from .progress import LinesAndMore
from .view import KernelView, SearchView
from .watch import Before, Sitting, Watcher, Whole

_TOLD = 0.98  # of the time that was told last: what is worth another line
_NO_WORK = Work((), 0)
_MARGIN = 3  # columns of the spinner


@dataclass(slots=True)
class _Part:
    """The watcher of one kernel (implements `watch.Watcher`), and what is known of it."""

    whole: ModelProgress
    place: str
    count: float
    task: str = ""
    work: Work = _NO_WORK
    trials: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    best: float = inf

    def begin(self, sitting: Sitting) -> None:
        """See `Watcher.begin`."""
        before = sitting.before
        self.task, self.work, self.trials = sitting.task[:8], sitting.work, before.trials
        self.failures, self.best = Counter(before.failures), min(before.best, before.known)
        self.whole.begin(sitting)

    def trial(self, measurement: Measurement) -> None:
        """See `Watcher.trial`."""
        self.trials += 1
        self.best = min(self.best, measurement.seconds)
        if not measurement.ok:
            self.failures[str(measurement.status)] += 1
        self.whole.trial(self.place, measurement)

    def racing(self, doing: str, percent: int) -> None:
        """See `RaceWatcher.racing`."""
        self.whole.racing(doing, percent)

    def end(self) -> None:
        """See `Watcher.end`."""
        self.whole.end()

    def seen(self) -> KernelView:
        """Returns what is known of the kernel."""
        return KernelView(self.task, self.place, self.work, self.count, self.trials, dict(self.failures), self.best)


class ModelProgress:
    """Shows the search of a model; each of its kernels has a watcher of its own."""

    def __init__(self, whole: Whole, console: Console | None = None) -> None:
        self._name = whole.name
        self._parts = [_Part(self, place, count) for place, count in zip(whole.places, whole.counts, strict=True)]
        self._console = console or make_console(stderr=True)
        self._began: list[Before] = []
        self._state: SearchState | None = None
        self._ceilings: Ceilings | None = None
        self._workers = ""
        self._first = 0.0  # seconds of the model when each kernel had a time
        self._told = inf
        self._place = ""  # of the last trial
        self._doing = ""  # when trials are over
        self._ended = 0
        self._bar: Progress | None = None
        self._row = TaskID(0)

    def watchers(self) -> list[Watcher]:
        """One for each kernel, in order."""
        return list(self._parts)

    def begin(self, sitting: Sitting) -> None:
        """The search of a kernel starts. All start before the first trial."""
        self._began.append(sitting.before)
        if len(self._began) < len(self._parts):
            return
        together = Before(
            sum(one.trials for one in self._began),
            sum((Counter(one.failures) for one in self._began), Counter()),
            spent=max(one.spent for one in self._began),
        )
        self._ceilings, self._workers = sitting.ceilings, sitting.workers
        self._state = SearchState(self._name, _NO_WORK, sitting.ceilings, sitting.budget, together)
        self._note_first()
        if self._console.is_terminal:
            columns = SpinnerColumn(), TextColumn("{task.description}", markup=False)
            self._bar = LinesAndMore(self._console, self._below, *columns)
            self._bar.start()
            self._row = self._bar.add_task(self._shown(), total=None)

    def trial(self, place: str, measurement: Measurement) -> None:
        """Counts a trial of a kernel and shows the new state."""
        if self._state is None:
            return
        self._state.take(measurement)
        self._place = place
        self._note_first()
        standing = self.view().standing()
        if self._bar is not None:
            self._bar.update(self._row, description=self._shown())
        elif standing.whole and standing.seconds <= _TOLD * self._told:
            self._say()

    def racing(self, doing: str, percent: int) -> None:
        """The kernels of the model are timed inside of it."""
        if self._bar is not None:
            self._bar.update(self._row, description=self._fitting(f"{self._name}: {doing}, {percent}%"))
        elif doing != self._doing:
            self._console.print(Text(f"{self._name}: {doing}"), soft_wrap=True)
        self._doing = doing

    def end(self) -> None:
        """The search of a kernel is over; with the last one the line stands."""
        self._ended += 1
        if self._ended < len(self._parts):
            return
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._place = ""
        if self._state is not None:
            self._say()

    def view(self) -> SearchView:
        """Returns what is known now."""
        assert self._state is not None and self._ceilings is not None
        kernels = [part.seen() for part in self._parts]
        return SearchView(self._state.figures(), kernels, self._ceilings, self._workers, self._first, self._place)

    def line(self) -> str:
        """See `SearchView.line`."""
        return self.view().line()

    def _note_first(self) -> None:
        standing = self.view().standing()
        if standing.whole and not self._first:
            self._first = standing.seconds

    def _below(self) -> RenderableType:
        return self.view().below(self._console.height - 2)

    def _shown(self) -> str:
        return self._fitting(f"{self._name}: {self.line()}")

    def _fitting(self, line: str) -> str:
        room = self._console.width - _MARGIN
        return line if len(line) <= room else line[: max(8, room - 1)] + "…"

    def _say(self) -> None:
        standing = self.view().standing()
        self._told = standing.seconds if standing.whole else inf
        self._console.print(Text(f"{self._name}: {self.line()}"), soft_wrap=True)
