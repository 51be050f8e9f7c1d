"""Live progress of a search: trials done, best so far and its share of the ceiling, failures, time left.

On a terminal one line changes in place; below it stand workers and failures by kind, as `tune watch` shows them (view.py). What
a narrow one has no room for is left out: first the bar, then words, then the end of the title, then all of it. Elsewhere (a
file, a log of continuous integration) a line is written whenever the best improves, and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from ...measure.result import Measurement
from ..roofline import Work
from ..terminal import make_console, pairs
from .figures import SearchState
from .view import KernelView, search_facts
from .watch import Sitting

_REFRESHED = 4.0  # times a second: drawing takes a processor that kernels are timed on
_SPINNER = 4  # columns of the spinner and of the blanks between the parts
_BAR = 20
_LINE, _SHORT_LINE = 78, 58  # columns of `State.line` with large numbers in it


class LinesAndMore(Progress):
    """Lines that change in place, with something below them that is made anew each time."""

    def __init__(self, console: Console, below: Callable[[], RenderableType], *columns: ProgressColumn) -> None:
        self._below = below
        super().__init__(*columns, console=console, transient=True, refresh_per_second=_REFRESHED)

    def get_renderables(self) -> Iterable[Any]:
        """See `Progress.get_renderables`."""
        yield from super().get_renderables()
        yield self._below()


class ProgressBoard:
    """Shows searches: on a terminal a line each, one below the other, as long as any of them runs; below, who works.

    `shared`: they have one budget in common, so that a line cannot say how far it is.
    """

    def __init__(self, console: Console | None = None, *, shared: bool = False) -> None:
        self.console = console or make_console(stderr=True)
        self.shared = shared
        self._bar: Progress | None = None
        self._running = 0
        self._shown: list[Live] = []

    def open(self, live: Live, *, bar: bool) -> Progress:
        """The lines, for one more search; `bar`: there is room for a bar in each."""
        self._shown.append(live)
        if self._bar is None:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                *((BarColumn(_BAR),) if bar and not self.shared else ()),
                TextColumn("{task.fields[line]}", markup=False),
            )
            self._bar = LinesAndMore(self.console, self._below, *columns)
            self._bar.start()
        self._running += 1
        return self._bar

    def _below(self) -> RenderableType:
        facts = search_facts(next((live.workers for live in self._shown), ""), [live.seen() for live in self._shown])
        return pairs(facts) if self.console.height > len(self._shown) + len(facts) else Group()

    def close(self) -> None:
        """One search is over."""
        self._running -= 1
        if self._bar is not None and not self._running:
            self._bar.stop()
            self._bar = None
            self._shown = []


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
        self._task, self.workers = "", ""

    def begin(self, sitting: Sitting) -> None:
        """Shows an empty bar, or one that stands where the run was cut."""
        title, budget = sitting.title, None if self._board.shared else sitting.budget
        self._state = SearchState(title, sitting.work, sitting.ceilings, budget, sitting.before)
        self._task, self.workers = sitting.task[:8], sitting.workers
        if self._console.is_terminal:
            room = self._console.width - _SPINNER - len(title)
            self._short = room < _LINE
            self._bar = self._board.open(self, bar=room >= _LINE + _BAR)
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

    def seen(self) -> KernelView:
        """Returns what is known of the kernel."""
        state = self._state
        if state is None:
            return KernelView(self._task, "", Work((), 0), 1.0, 0, {}, float("inf"))
        return KernelView(self._task, state.title, state.work, 1.0, state.done, dict(state.failures), state.best)

    def _say(self, state: SearchState) -> None:
        line = f"{state.title}: {state.line()}"
        if line != self._said:
            self._console.print(Text(line), soft_wrap=True)
        self._said = line
