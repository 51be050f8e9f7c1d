"""Tables that stay readable in a narrow terminal: what is long goes below its row where it has no room beside it."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_GAP = 2  # columns between two columns
_ROOM = 20  # columns that what is long has at least, or else goes below


class RoomyTable(Table):
    """A table without frames. Columns named in `long` may wrap; others hold numbers and names, and are never cut for them."""

    def __init__(self, *headings: str, long: frozenset[str]) -> None:
        """A heading that starts with ">" stands to the right."""
        super().__init__(box=None, header_style="bold", padding=(0, _GAP, 0, 0), pad_edge=False)
        self._headings = headings
        self._long = {number for number, heading in enumerate(headings) if heading in long}
        self._cells: list[tuple[RenderableType | None, ...]] = []
        for number, heading in enumerate(headings):
            self.add_column(
                heading.lstrip(">"), justify="right" if heading.startswith(">") else "left", overflow="fold",
                no_wrap=number not in self._long,
            )  # fmt: skip

    def add_row(self, *cells: RenderableType | None, **style: object) -> None:
        """See `Table.add_row`."""
        assert len(cells) <= len(self._headings), "a column without a heading, which rich would make silently"
        self._cells.append(cells)
        super().add_row(*cells, **style)  # type: ignore[arg-type]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table; without its long columns, and with their cells below each row, where they would have no room."""
        short = RoomyTable(*(h for n, h in enumerate(self._headings) if n not in self._long), long=frozenset())
        for cells in self._cells:
            short.add_row(*(cell for number, cell in enumerate(cells) if number not in self._long))
        beside = Measurement.get(console, options.update(max_width=1 << 12), short).maximum
        if not self._long or not short.columns or beside + (_GAP + _ROOM) * len(self._long) <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        head, *lines = console.render_lines(short, options.update(width=max(beside, options.max_width)), pad=False)
        yield from (*head, Segment.line())
        for line, cells in zip(lines, self._cells, strict=True):
            yield from (*line, Segment.line())
            for number in sorted(self._long):
                cell = cells[number] if number < len(cells) else None
                if cell not in (None, ""):
                    yield Padding(Text(cell) if isinstance(cell, str) else cell or "", (0, 0, 0, _GAP))
