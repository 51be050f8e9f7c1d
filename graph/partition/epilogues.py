"""What finishes a reduction: the pointwise stages after it that work on its values at their own places.

They can run while the values are in registers, so that only the last of them is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...tensor.program import Program, Stage
from .inline import is_reshape
from .places import same_place


@dataclass(frozen=True, slots=True)
class Epilogue:
    """`reduction` and the pointwise `members` after it, the last of which alone is read by others, or is an output."""

    reduction: str
    members: tuple[str, ...]


def epilogues(program: Program) -> Mapping[str, Epilogue]:
    """Finds epilogues, by the name of the last member. Where one finishes several reductions (a sum of two products), it is
    with the last."""
    found: dict[str, Epilogue] = {}
    for stage in program.stages:
        if stage.reduction and stage.fold is None and stage.name not in program.outputs:
            members = _members(program, stage)
            if members:
                found[members[-1]] = Epilogue(stage.name, tuple(members))
    return found


def _members(program: Program, reduction: Stage) -> list[str]:
    """The members up to the last stage through which everything passes.

    They are met in the order of the program. `unmet` are readers of members that have not been met: when none is left but
    those of one member, everything passes through that.
    """
    inside = {reduction.name}
    members: list[str] = []
    through = 0  # how many members there were when everything passed through the last of them
    unmet = {reader.name for reader in program.consumers[reduction.name]}
    while unmet:
        stage = program.stage(min(unmet, key=program.places.__getitem__))
        unmet.discard(stage.name)
        if not _joins(program, stage, inside):
            break
        inside.add(stage.name)
        members.append(stage.name)
        if not unmet:
            through = len(members)
        if stage.name in program.outputs:
            break
        unmet |= {reader.name for reader in program.consumers[stage.name]}
    return members[:through]


def _joins(program: Program, stage: Stage, inside: set[str]) -> bool:
    """Says whether a stage may be a member. The same memory under another shape is none, but at the end of the program: no
    kernel writes it, so that what comes after it reads what the reduction has stored."""
    if stage.combiner is not None or len(stage.tensors) != 1:
        return False
    if stage.name not in program.outputs and is_reshape(program, stage):
        return False
    read = [r for r in stage.reads() if r.tensor in inside]
    return all(same_place(program, stage, r) for r in read)
