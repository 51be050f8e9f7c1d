"""Live progress of a search: trials done, best so far and its share of the ceiling, failures, time left.

On a terminal one line changes in place, and what a narrow one has no room for is left out: first the bar, then words, then
the end of the title, then all of it. Elsewhere (a file, a log of continuous integration) a line is written whenever
the best improves, and at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from ..measure.result import Measurement
from ..targets.ceilings import Ceilings
from .budget import Budget
from .roofline import Work
from .terminal import make_console
from .watch import NOTHING, Before

_SPINNER = 4  # columns of the spinner and of the blanks between the parts
_BAR = 20
_LINE, _SHORT_LINE = 78, 58  # columns of `State.line` with large numbers in it


class ProgressBoard:
    """Shows searches: on a terminal a line each, one below the other, as long as any of them runs.

    `shared`: they have one budget in common, so that a line cannot say how far it is.
    """

    def __init__(self, console: Console | None = None, *, shared: bool = False) -> None:
        self.console = console or make_console(stderr=True)
        self.shared = shared
        self._bar: Progress | None = None
        self._running = 0

    def open(self, *, bar: bool) -> Progress:
        """The lines, for one more search; `bar`: there is room for a bar in each."""
        if self._bar is None:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                *((BarColumn(_BAR),) if bar and not self.shared else ()),
                TextColumn("{task.fields[line]}", markup=False),
            )
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._bar.start()
        self._running += 1
        return self._bar

    def close(self) -> None:
        """One search is over."""
        self._running -= 1
        if self._bar is not None and not self._running:
            self._bar.stop()
            self._bar = None


class Live:
    """A `watch.Watcher` that shows what it is told on `console` (stderr by default), or on a board with others."""

    def __init__(self, console: Console | None = None, *, board: ProgressBoard | None = None) -> None:
        self._board = board or ProgressBoard(console)
        self._console = self._board.console
        self._bar: Progress | None = None
        self._row = TaskID(0)
        self._short = False  # whether words are left out
        self._said = ""
        self._state: SearchState | None = None

    def begin(self, title: str, work: Work, ceilings: Ceilings, budget: Budget, before: Before = NOTHING) -> None:
        """Shows an empty bar, or one that stands where the run was cut."""
        self._state = SearchState(title, work, ceilings, None if self._board.shared else budget, before)
        if self._console.is_terminal:
            room = self._console.width - _SPINNER - len(title)
            self._short = room < _LINE
            self._bar = self._board.open(bar=room >= _LINE + _BAR)
            kept = len(title) + room - _SHORT_LINE - 1
            shown = title if room >= _SHORT_LINE else title[: max(8, kept)] + "…"
            if kept < 8 and not self._board.shared:  # of several searches each needs a name
                shown = ""
            line = self._state.line(short=self._short)
            self._row = self._bar.add_task(shown, total=1000, completed=self._state.permille, line=line)

    def trial(self, measurement: Measurement) -> None:
        """Counts the trial and shows the new state."""
        if self._state is None:
            return
        better = self._state.take(measurement)
        if self._bar is not None:
            line = self._state.line(short=self._short)
            self._bar.update(self._row, completed=self._state.permille, line=line)
        elif better:
            self._say(self._state)

    def end(self) -> None:
        """Takes the bar away and leaves the last state as a line."""
        if self._bar is not None:
            self._bar = None
            self._board.close()
        if self._state is not None:
            self._say(self._state)
            self._state, self._said = None, ""

    def _say(self, state: SearchState) -> None:
        line = f"{state.title}: {state.line()}"
        if line != self._said:
            self._console.print(Text(line), soft_wrap=True)
        self._said = line


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
    """Counts the trials of a running search. `budget`: None where it is shared with other searches."""

    def __init__(self, title: str, work: Work, ceilings: Ceilings, budget: Budget | None, before: Before) -> None:
        self.title = title
        self._work, self._ceilings = work, ceilings
        self._trials, self._seconds = (None, None) if budget is None else (budget.trials, budget.seconds)
        self._before, self.done = before.trials, before.trials
        self._failures, self._best = before.failed, before.best
        self._start = monotonic()
        self._spent_before = before.spent

    def take(self, measurement: Measurement) -> bool:
        """Counts a trial; says whether it is the best so far."""
        self.done += 1
        self._failures += not measurement.ok
        better = measurement.seconds < self._best
        self._best = min(self._best, measurement.seconds)
        return better

    def figures(self) -> SearchFigures:
        """Tells how far it is now."""
        taken, made = monotonic() - self._start, self.done - self._before
        return SearchFigures(
            self._trials, self._seconds, self.done, self._failures, self._best, self._spent_before + taken,
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
        return self.figures().line(self._work, self._ceilings, short=short)
