"""What loop IR is but for its names: a text that is the same for nests with the same code.

Names of buffers and variables are numbered by their first appearance, parents before children; all else stands as it is:

    for t2_i_1 < 40 { t2[t2_i_1] = x1[t2_i_1] }    and    for t5_i_1 < 40 { t5[t5_i_1] = x0[t5_i_1] }    are one structure

A field of a node is a name, a part, or a value; which of them it is stands in one table, so that a field that nobody thought of
counts as a value: it keeps nests apart that could be shared, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

from ...tensor.expr import Expr, Read, Var
from .loop_ir import (
    Barrier,
    Buffer,
    For,
    Let,
    MatrixClear,
    MatrixMove,
    MatrixMultiply,
    Prefetch,
    Shuffle,
    Statement,
    Store,
    Update,
)

VARIABLES: dict[type, str] = {Var: "name", For: "var", Let: "var"}
BUFFERS: dict[type, tuple[str, ...]] = {
    Read: ("tensor",),
    Buffer: ("name",),
    Store: ("buffer",),
    Update: ("buffer",),
    Prefetch: ("buffer",),
    Barrier: ("buffers",),
    Shuffle: ("buffer", "source"),
    MatrixClear: ("tiles",),
    MatrixMove: ("tiles",),
    MatrixMultiply: ("tiles",),
}
SILENT: dict[type, tuple[str, ...]] = {For: ("label",)}  # for people: no code depends on it


class Structure:
    """Collects the words of nodes. `variables`, `buffers`: the names that have been met -> their numbers."""

    def __init__(self) -> None:
        self.variables: dict[str, int] = {}
        self.buffers: dict[str, int] = {}
        self.words: list[str] = []

    @property
    def text(self) -> str:
        """Returns all that was added, as text."""
        return " ".join(self.words)

    def add(self, node: Any) -> None:
        """Adds a statement, an expression, a buffer, or a value of one of their fields."""
        kind: Any = type(node)
        if kind is tuple:
            self.words.append(f"({len(node)}")
            for part in node:
                self.add(part)
        elif plan := _plan(kind):
            self.words.append(kind.__name__)
            for read, add in plan:
                add(self, read(node))
        else:
            self.words.append(repr(node))

    def variable(self, name: str) -> None:
        """Adds a variable by its number."""
        self.words.append(f"%{self.variables.setdefault(name, len(self.variables))}")

    def buffer(self, name: str | frozenset[str]) -> None:
        """Adds a buffer by its number; several, which have no order, by theirs."""
        if isinstance(name, str):
            self.words.append(f"@{self.buffers.setdefault(name, len(self.buffers))}")
        else:
            self.words.append(f"({len(name)}")
            for one in sorted(name, key=lambda one: (self.buffers.get(one, len(self.buffers)), one)):
                self.buffer(one)


Traversal = tuple[tuple[Callable[[Any], Any], Callable[[Structure, Any], None]], ...]


@cache
def _plan(kind: Any) -> Traversal:
    """Says how to read each field of a node, and how to add it; nothing for what is no node."""
    if not issubclass(kind, Expr | Statement | Buffer):
        return ()

    def adding(name: str) -> Callable[[Structure, Any], None]:
        if name == VARIABLES.get(kind):
            return Structure.variable
        return Structure.buffer if name in BUFFERS.get(kind, ()) else Structure.add

    names = [field.name for field in fields(kind) if field.name not in SILENT.get(kind, ())]
    return tuple((attrgetter(name), adding(name)) for name in names)
