"""Stages that finish a reduction point by point, in whatever order of the axes."""

from __future__ import annotations

from collections.abc import Callable, Set

from ...tensor.expr import Read, Var
from ...tensor.program import Program, Stage
from ..access import finished


def correspondence(stage: Stage, tensor: str, anchor: Stage) -> dict[str, str]:
    """Maps each axis of the anchor to that of the stage that reads it there; empty unless each point is read once."""
    reads = [r for r in stage.reads() if r.tensor == tensor]
    if len(reads) != 1 or len(stage.axes) != len(anchor.axes):
        return {}
    names = [index.name if isinstance(index, Var) else "" for index in reads[0].indices]
    if sorted(names) != sorted(a.name for a in stage.axes):
        return {}
    return {a.name: name for a, name in zip(anchor.axes, names, strict=True)}


def finished_in_any_order(
    parts_of: Callable[[Program, Stage], object | None],
) -> Callable[[Program, Stage, Set[str]], Stage | None]:
    """Makes a search for the anchor, a stage that has parts, whose values a pointwise stage finishes in whatever order."""

    def finishes(program: Program, stage: Stage, taken: Set[str]) -> Stage | None:
        def fits(_: Read, producer: Stage) -> bool:
            return parts_of(program, producer) is not None and bool(correspondence(stage, producer.name, producer))

        return finished(program, stage, taken, fits)

    return finishes
