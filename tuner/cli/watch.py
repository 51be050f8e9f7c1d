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
from rich.text import Text

from ...common.errors import NoRecordError, TilesmithError
from ...common.settings import DATABASE
from ...targets.ceilings import Ceilings, default_ceilings
from ...targets.target import parse_target
from ...tensor.text.parse import parse
from ..display import program_title
from ..effort import effort_named
from ..records.database import Database
from ..records.searches import KILLED, RUNNING, KernelSearch, SearchSeen, latest_searches, search_ceilings
from ..roofline import Work, program_work
from ..terminal import make_console, pairs
from ..watching.figures import SearchFigures
from ..watching.view import KernelView, SearchView, search_facts
from .parameters import DatabasePath

_NOTHING = Work((), 0)
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
        return f"{one.title}: {one.seen().line()}"


class _View:
    """One search, with what the database knows of its kernels."""

    def __init__(self, database: Database, search: SearchSeen) -> None:
        self._search = search
        programs = [self._program(database, kernel) for kernel in search.kernels]
        titles = [
            kernel.facts.get("title") or (program_title(text) if text else f"task {kernel.task[:8]}")
            for kernel, text in zip(search.kernels, programs, strict=True)
        ]
        self._kernels = [
            KernelView(
                one.task[:8], str(one.facts.get("place") or title), _work(text), one.facts.get("count", 1.0), one.trials,
                one.failures, one.best,
            )
            for one, title, text in zip(search.kernels, titles, programs, strict=True)
        ]  # fmt: skip
        self._ceilings = self._read_ceilings(database)
        self.title = str(search.told("model") or ", ".join(titles[:3]) + (" ..." if len(titles) > 3 else ""))

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

    def seen(self) -> SearchView:
        """Returns what its own terminal shows, too."""
        kernels, first = self._search.kernels, 0.0
        if all(kernel.best < inf for kernel in kernels):
            known = zip(self._kernels, kernels, strict=True)
            first = sum(view.count * kernel.first for view, kernel in known if kernel.first < inf)
        workers = str(self._search.told("workers") or "")
        return SearchView(self.figures(), self._kernels, self._ceilings, workers, first)

    def shown(self) -> RenderableType:
        """Shows all that is known of it."""
        search, seen = self._search, self.seen()
        spent = search.spent(time.time())
        worked = f"{int(spent) // 60}:{int(spent) % 60:02} of work by process {search.owner.rpartition('/')[2]}"
        ended = f"; {_ENDS[search.state]}" if search.state in _ENDS else ""
        facts: dict[str, RenderableType] = {
            "search": f"{search.state}, {worked}{ended}",
            "so far": seen.line(),
            **search_facts(seen.workers, seen.kernels),
        }
        return Group(Text(self.title, style="bold"), pairs(facts), Text(), seen.table(), Text())


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
