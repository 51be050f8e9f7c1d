"""The console that the command line writes to (a terminal, a file or a pipe), and names with values as it shows them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..common.printable import printable

_WIDE = 200  # columns where the output is no terminal


class PlainConsole(Console):
    """A console on which nothing that it is given acts as a control character."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See `Console.render`: all that is shown comes by here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def make_console(*, stderr: bool = False) -> Console:
    """A console that does not cut its lines where the output is a file or a pipe, and takes brackets for brackets."""
    width = None if (sys.stderr if stderr else sys.stdout).isatty() else _WIDE
    return PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def pairs(values: Mapping[str, RenderableType]) -> Table:
    """Names and values, one below the other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        grid.add_row(Text(name, style="bold"), Text(value) if isinstance(value, str) else value)
    return grid
