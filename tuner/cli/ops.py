"""`tune ops`: what operators there are."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ...tensor.ops.catalogue import Entry, catalogue, dtypes_of, entry_of
from ...tensor.ops.operator import find_operator
from ..terminal import pairs
from .report import titled


def operators_text(name: str | None) -> Group:
    """All operators in groups; those whose names begin or end with `name`; or all about the one of this name.

    Errors: ArgumentError where no operator is called so.
    """
    entries = catalogue()
    if name is None:
        return _listed(entries)
    if any(entry.name == name for entry in entries):
        return _told(entry_of(name))
    some = [entry for entry in entries if name in entry.name]
    if not some:
        find_operator(name)  # tells the close ones
    return _listed(some)


def _listed(entries: tuple[Entry, ...] | list[Entry]) -> Group:
    shown = []
    for group in dict.fromkeys(entry.group for entry in entries):
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for heading in ("operator", "parameters", "inputs"):
            table.add_column(heading, style="bold" if heading == "operator" else None, overflow="fold")
        for entry in entries:
            if entry.group == group:
                table.add_row(Text(entry.name), Text(entry.usage), Text(" ".join(entry.inputs)))
        shown.append(titled(group, table))
    return Group(*shown)


def _told(entry: Entry) -> Group:
    facts = {"parameters": entry.usage, "inputs": " ".join(entry.inputs), "dtypes": " ".join(dtypes_of(entry.name))}
    return Group(titled(entry.name, Text(f"{entry.meaning}\n"), pairs(facts)))
