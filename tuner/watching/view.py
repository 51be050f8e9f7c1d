"""A search as people watch it, in its own terminal and in another one (`tune watch`): the same words from the same facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...targets.ceilings import Ceilings
from ..models.tasks import Standing
from ..roofline import Work
from ..terminal import pairs
from ..units import time_text
from .figures import SearchFigures

_SHOWN = 24  # kernels of a table


@dataclass(frozen=True, slots=True)
class KernelView:
    """A kernel of a search.

    Attributes:
        task: the first digits of its task.
        place: its name, or the layers of a model that it is.
        count: how often the model calls it.
        failures: how many trials failed, by kind.
        best: seconds of the best that is known; infinity where nothing is.
    """

    task: str
    place: str
    work: Work
    count: float
    trials: int
    failures: Mapping[str, int]
    best: float


@dataclass(frozen=True, slots=True)
class SearchView:
    """A search of one kernel, or of several that are one whole.

    Attributes:
        workers: who builds and times, in words.
        first: seconds of the whole when each kernel had a time; 0 before that.
        place: of the last trial.
    """

    figures: SearchFigures
    kernels: Sequence[KernelView]
    ceilings: Ceilings
    workers: str
    first: float = 0.0
    place: str = ""

    def standing(self) -> Standing:
        """Tells how it stands with the whole."""
        least = [one.work.least_seconds(self.ceilings) if one.work.bytes else 0.0 for one in self.kernels]
        return Standing([one.count for one in self.kernels], least, [one.best for one in self.kernels])

    def line(self, *, short: bool = False) -> str:
        """Tells how far it is, in one line."""
        if len(self.kernels) == 1:
            return self.figures.line(self.kernels[0].work, self.ceilings, short=short)
        standing = self.standing()
        return whole_line(self.figures, standing, self.first or standing.seconds, self.place)

    def table(self, room: int = _SHOWN) -> RenderableType:
        """Lists the kernels, those first that take most of the whole. `room`: how many lines there are for them."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for heading in ("task", "trials", "failed", "best", "speed", "of the whole", "open", "kernel"):
            words = heading in ("task", "kernel")
            table.add_column(
                heading, justify="left" if words else "right", no_wrap=True, overflow="ellipsis" if words else "fold"
            )
        standing = self.standing()
        order = sorted(range(len(self.kernels)), key=lambda number: -standing.share(number))
        for number in order[: min(room, _SHOWN)]:
            kernel = self.kernels[number]
            speed = (
                str(kernel.work.speed(kernel.best, self.ceilings)) if kernel.best < inf and kernel.work.bytes else ""
            )
            table.add_row(
                kernel.task, str(kernel.trials), str(sum(kernel.failures.values())),
                time_text(kernel.best) if kernel.best < inf else "", speed, f"{standing.share(number):.0%}",
                f"{standing.open_of(number):.0%}", kernel.place,
            )  # fmt: skip
        more = len(order) - min(room, _SHOWN)
        return Group(table, Text(f"and {more} more")) if more > 0 else table

    def below(self, room: int) -> RenderableType:
        """Shows what stands below the line in a terminal that has `room` more lines."""
        facts = search_facts(self.workers, self.kernels)
        if room < len(facts):
            return Group()
        left = room - len(facts) - 3  # a blank line, the headings, and how many more there are
        return Group(pairs(facts), Text(), self.table(left)) if len(self.kernels) > 1 and left > 0 else pairs(facts)


def search_facts(workers: str, kernels: Iterable[KernelView]) -> dict[str, RenderableType]:
    """Tells who works, and what fails, most first."""
    failures = Counter[str]()
    for kernel in kernels:
        failures.update(kernel.failures)
    told = ", ".join(f"{count} {kind}" for kind, count in failures.most_common())
    return {"workers": workers or "not told", "failures": told or "none"}


def whole_line(figures: SearchFigures, standing: Standing, first: float, place: str = "") -> str:
    """`57/2000 trials, 9.84 ms now (12.1 ms at first), 34% of it open, 3 failed, 0:21 left; layer1.0: conv1`."""
    parts = [figures.trials_text()]
    if standing.whole:
        parts.append(f"{time_text(standing.seconds)} now ({time_text(first)} at first)")
        parts.append(f"{standing.open:.0%} of it open")
    else:
        parts.append(f"{standing.known} of {len(standing.best)} kernels measured")
    return ", ".join([*parts, *figures.rest_texts()]) + (f"; {place}" if place else "")
