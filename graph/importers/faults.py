"""What an importer meets that is not covered: remembered to the end, and told at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...common.errors import ArgumentError

_SHOWN = 6  # nodes of each operator


@dataclass
class Faults:
    """Collects what is not covered, with the names of the nodes where it stands."""

    found: dict[str, list[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, what: str, node: str) -> None:
        """Remembers what is not covered of a node, once."""
        named = self.found.setdefault(what, [])
        if node not in named:
            named.append(node)

    def refusal(self, whole: str, advice: str = "") -> ArgumentError:
        """One error for all of a `whole` ("module", "model"): each operator with its nodes, the first few of many."""
        lines = []
        for what, nodes in self.found.items():
            more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
            lines.append(f"{what}: {', '.join(nodes[:_SHOWN])}{more}")
        return ArgumentError(
            f"the {whole} has what is not covered",
            expected="operators of docs/models.md with static shapes",
            found="\n            ".join(lines),
            advice=advice,
        )
