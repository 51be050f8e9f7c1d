"""`tune watch`: how far a search is, from another terminal; it reads the database and nothing else."""

from __future__ import annotations

import time
from functools import cache
from math import inf
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ...common.errors import NoRecordError, TilesmithError
from ...common.settings import DATABASE
from ...targets.ceilings import Ceilings, default_ceilings
from ...targets.target import parse_target
from ...tensor.text.parse import parse
from ..display import program_title
from ..effort import effort_named
from ..models.progress import model_line
from ..models.tasks import Standing
from ..progress import SearchFigures
from ..records.database import Database
from ..records.searches import KILLED, RUNNING, KernelSearch, SearchSeen, latest_searches, search_ceilings
from ..roofline import Work, program_work
from ..terminal import make_console
from ..units import time_text
from .parameters import DatabasePath
from .report import OneLineEach, pairs

_NOTHING = Work((), 0)
_SHOWN = 24  # kernels of a table
_ENDS = {KILLED: "its process is gone: the same command continues it", "interrupted": "the same command continues it"}


def watch(
    every: Annotated[float, typer.Option(min=0.05, help="seconds between two looks")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="look once, and end")] = False,
    db: DatabasePath = None,
) -> None:
    """Shows the searches that run now, until they end; where none runs, the last one. Ctrl-C ends the view alone."""
    path = db or DATABASE.value()
    console = make_console()
    searches = _looked(path)
    if once or not _running(searches):
        console.print(view(path, searches))
        return
    try:
        if console.is_terminal:
            with Live(view(path, searches), console=console, auto_refresh=False) as live:
                while _running(searches):
                    time.sleep(every)
                    searches = _of(path, searches)
                    live.update(view(path, searches), refresh=True)
            return
        said = ""
        while _running(searches):
            line = "; ".join(_line(path, search) for search in searches)
            said, before = line, said
            if _without_time(line) != _without_time(before):
                console.print(Text(line), soft_wrap=True)
            time.sleep(every)
            searches = _of(path, searches)
        console.print(view(path, searches))
    except KeyboardInterrupt:
        pass


def _looked(path: Path) -> list[SearchSeen]:
    found = latest_searches(path)
    if not found:
        raise NoRecordError(
            "no search was ever begun here", found=str(path), advice="tune run WHAT, or give another --db"
        )
    return found


def _running(searches: list[SearchSeen]) -> bool:
    return any(search.state == RUNNING for search in searches)


def _of(path: Path, before: list[SearchSeen]) -> list[SearchSeen]:
    """All that run now; when the last has ended, how it did."""
    now = _looked(path)
    return now if _running(now) or len(before) == 1 else now[:1]


def _without_time(line: str) -> str:
    """A line without what changes by itself."""
    return ", ".join(part for part in line.split(", ") if not part.endswith(" left"))


def view(path: Path, searches: list[SearchSeen]) -> RenderableType:
    """Returns what is shown of some searches."""
    with Database(path, read_only=True) as database:
        return Group(*(_View(database, search).shown() for search in searches))


def _line(path: Path, search: SearchSeen) -> str:
    with Database(path, read_only=True) as database:
        one = _View(database, search)
        return f"{one.title}: {one.line()}"


class _View:
    """One search, with what the database knows of its kernels."""

    def __init__(self, database: Database, search: SearchSeen) -> None:
        self._search = search
        programs = [self._program(database, kernel) for kernel in search.kernels]
        self._titles = [
            kernel.facts.get("title") or (program_title(text) if text else f"task {kernel.task[:8]}")
            for kernel, text in zip(search.kernels, programs, strict=True)
        ]
        self._works = [_work(text) for text in programs]
        self._ceilings = self._read_ceilings(database)
        self.title = str(
            search.told("model") or ", ".join(self._titles[:3]) + (" ..." if len(self._titles) > 3 else "")
        )

    @staticmethod
    def _program(database: Database, kernel: KernelSearch) -> str:
        if "program" in kernel.facts:
            return str(kernel.facts["program"])
        task = database.task(kernel.task)
        return task.display if task is not None else ""

    def _read_ceilings(self, database: Database) -> Ceilings:
        target = next((task for task in (database.task(one.task) for one in self._search.kernels) if task), None)
        usual = default_ceilings(parse_target(target.target if target else "host"), target.threads if target else 1)
        try:
            return Ceilings.from_json(search_ceilings(database, self._search))
        except ValueError:
            return usual

    def figures(self) -> SearchFigures:
        """Tells how far it is."""
        search = self._search
        trials, seconds = search.told("trials"), search.told("seconds")
        if search.kernels[0].facts.get("workers") is None:  # of before: the request tells
            trials, seconds = search.request.get("trials"), search.request.get("seconds")
            if trials is None and seconds is None:
                trials = _usual_trials(search.request.get("effort"))
        spent, done = search.spent(time.time()), search.trials
        best = min(kernel.found for kernel in search.kernels) if len(search.kernels) == 1 else inf
        failed = sum(search.failures.values())
        return SearchFigures(trials, seconds, done, failed, best, spent, spent / done if done else None)

    def line(self) -> str:
        """The line that its own terminal shows."""
        figures = self.figures()
        if len(self._search.kernels) == 1:
            return figures.line(self._works[0], self._ceilings)
        standing, first = self._standing(), 0.0
        if standing.whole:
            first = sum(
                n * k.first for n, k in zip(standing.counts, self._search.kernels, strict=True) if k.first < inf
            )
        return model_line(figures, standing, first or standing.seconds)

    def _standing(self) -> Standing:
        kernels = self._search.kernels
        least = [work.least_seconds(self._ceilings) if work.bytes else 0.0 for work in self._works]
        return Standing([k.facts.get("count", 1.0) for k in kernels], least, [k.best for k in kernels])

    def shown(self) -> RenderableType:
        """Shows all that is known of it."""
        search = self._search
        spent = search.spent(time.time())
        ended = f"; {_ENDS[search.state]}" if search.state in _ENDS else ""
        facts: dict[str, RenderableType] = {
            "search": f"{search.state}, {int(spent) // 60}:{int(spent) % 60:02} of work{ended}",
            "so far": self.line(),
            "workers": f"{search.told('workers') or 'not told'} (process {search.owner.rpartition('/')[2]})",
            "failures": ", ".join(f"{count} {kind}" for kind, count in search.failures.items()) or "none",
        }
        return Group(Text(self.title, style="bold"), pairs(facts), Text(), self._table(), Text())

    def _table(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for heading in ("task", "trials", "failed", "best", "speed", "of the whole", "open", "kernel"):
            table.add_column(heading, justify="left" if heading in ("task", "kernel") else "right", no_wrap=True)
        standing = self._standing()
        order = sorted(range(len(self._titles)), key=lambda number: -standing.share(number))
        for number in order[:_SHOWN]:
            kernel, work = self._search.kernels[number], self._works[number]
            speed = str(work.speed(kernel.best, self._ceilings)) if kernel.best < inf and work.bytes else ""
            table.add_row(
                kernel.task[:8], str(kernel.trials), str(sum(kernel.failures.values())),
                time_text(kernel.best) if kernel.best < inf else "", speed, f"{standing.share(number):.0%}",
                f"{standing.open_of(number):.0%}", str(kernel.facts.get("place") or self._titles[number]),
            )  # fmt: skip
        more = len(order) - _SHOWN
        return Group(table, OneLineEach(f"and {more} more")) if more > 0 else table


@cache
def _work(text: str) -> Work:
    """The work of a kernel, once: the view is made anew each second."""
    try:
        return program_work(parse(text)) if text else _NOTHING
    except TilesmithError:
        return _NOTHING


def _usual_trials(effort: object) -> int | None:
    try:
        return effort_named(str(effort)).trials
    except TilesmithError:
        return None
