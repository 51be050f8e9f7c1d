"""What a verifier of loop IR finds, each with its place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .loop_ir import Allocate, Block, For, If, Let, Nest, Statement
from .printing import statement_lines


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant. `place`: the nest, and the statements around, from the outermost inward."""

    place: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return "\n".join([self.text, *("  " * (depth + 1) + line for depth, line in enumerate(self.place))])


class VerifierReport:
    """Collects faults. `path`: where the verifier is now."""

    def __init__(self) -> None:
        self.faults: list[Violation] = []
        self.path: list[Nest | Statement] = []

    def add(self, text: str) -> None:
        """A fault at this place."""
        self.faults.append(Violation(tuple(_head(node) for node in self.path if not isinstance(node, Block)), text))


def _head(node: Nest | Statement) -> str:
    """The first line of a statement."""
    if isinstance(node, Nest):
        return f"nest {node.name}"
    if isinstance(node, (For, Let, Allocate)):
        node = replace(node, body=Block(()))
    elif isinstance(node, If):
        node = replace(node, then=Block(()), otherwise=None)
    return statement_lines(node)[0].strip()
