"""Which nodes are to be trusted with another host: one that has lost several is set aside, and a person is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

STRIKES = 3  # hosts that a node may lose in one run


@dataclass
class Roster:
    """Nodes by id, and what they have lost."""

    strikes: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)

    def strike(self, node: str, why: str) -> bool:
        """Notes the loss of a host; True when the node has just been set aside by it."""
        self.strikes[node] += 1
        self.reasons[node] = why
        return self.strikes[node] == STRIKES

    def bar(self, node: str, why: str) -> None:
        """Sets a node aside at once."""
        self.strikes[node] = STRIKES
        self.reasons[node] = why

    def serves(self, node: str) -> bool:
        """Says whether the node may have another host."""
        return self.strikes[node] < STRIKES
