"""What is computed row by row: a stage, and the producers of which it needs the values of one row at a time.

A softmax or a normalisation is such a group, and so is a product of a product with something of each row between. Producers
run inside the rows of the last stage, where what they leave stays in a near cache.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from heapq import heappop, heappush

from ...schedules.access import is_anchor
from ...schedules.rules.cpu.stream import row_axes
from ...tensor.program import Program, Stage


def row_members(program: Program, root: Stage, taken: AbstractSet[str], products: bool = False) -> list[str]:
    """The producers that run in the rows of a root, all of whose readers do; of the longest prefix of its axes that has any.

    `products`: one product with reuse must be among them; otherwise none is.
    """
    for shared in range(len(root.axes) - 1, 0, -1):
        if any(a.extent > 1 for a in root.axes[:shared]):
            found = _members(program, root, shared, taken, products)
            if found and (not products or any(is_anchor(program.stage(name)) for name in found)):
                return found
    return []


def _members(program: Program, root: Stage, shared: int, taken: AbstractSet[str], products: bool) -> list[str]:
    """Consumers come before producers; only what the root reads, or a member does, is looked at."""
    rows: dict[str, tuple[str | None, ...]] = {root.name: tuple(a.name for a in root.axes[:shared])}
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
        may = stage.name not in taken and (products or not is_anchor(stage))
        own = _row(program, stage, rows) if may else None
        if own is not None:
            products = products and not is_anchor(stage)
            rows[stage.name] = own
            members.append(stage.name)
            wait_for_producers(stage)
    return members


def _row(program: Program, stage: Stage, rows: dict[str, tuple[str | None, ...]]) -> tuple[str | None, ...] | None:
    """The row axes of a producer, if all its readers are in the group."""
    if stage.name in program.outputs or stage.fold is not None or len(stage.tensors) > 1:
        return None
    if any(reader.name not in rows for reader in program.consumers[stage.name]):
        return None
    return row_axes(program, stage, rows, len(next(iter(rows.values()))))
