"""One host as the pool sees it: what it has, what it is about to get, how far it can be believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from ..process.builder import Built
from ..result import Job, Measurement
from .host import HostFacts
from .pace import Gauge


@dataclass
class Ticket:
    """A job on its way."""

    job: Job
    built: Built | None = None
    losses: int = 0
    again: bool = False  # its first times came from a drifting device


@dataclass
class HostLane:
    """One host as the pool sees it."""

    key: str
    facts: HostFacts
    builds: bool
    depth: int
    gauge: Gauge = field(default_factory=Gauge)
    holding: dict[int, Ticket] = field(default_factory=dict)
    outgoing: list[Ticket] = field(default_factory=list)
    held: list[tuple[Ticket, Measurement]] = field(default_factory=list)  # until its pace is known
    asked: float = -1.0  # when the message went out that it has not answered; -1: none is out
    deadline: float = inf
    done: int = 0
    failed: int = 0

    @property
    def load(self) -> int:
        """Jobs that it has or is about to get."""
        return len(self.holding) + len(self.outgoing)

    @property
    def suspect(self) -> bool:
        """Says whether it has a job that may end it."""
        return any(ticket.losses for ticket in (*self.outgoing, *self.holding.values()))

    @property
    def free(self) -> bool:
        """Says whether it can be spoken to."""
        return self.asked < 0
