"""The walk from a root back to the producers that run inside of it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from ...tensor.program import Program, Stage


def members_of(program: Program, root: Stage, takes_in: Callable[[Stage], bool]) -> list[str]:
    """Returns the producers that are taken in, consumers first. Only what the root or a member reads is looked at, and each
    stage once, after all of its readers that could be members."""
    members: list[str] = []
    waiting: list[int] = []
    seen: set[str] = set()

    def wait_for_producers(stage: Stage) -> None:
        for read in stage.reads():
            producer = program.producers.get(read.tensor)
            if producer is not None and producer.name not in seen:
                seen.add(producer.name)
                heappush(waiting, -program.places[producer.name])

    wait_for_producers(root)
    while waiting:
        stage = program.stages[-heappop(waiting)]
        if takes_in(stage):
            members.append(stage.name)
            wait_for_producers(stage)
    return members
