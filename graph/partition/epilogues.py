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
    with the last; the others keep what makes fewer bytes of their sums, as where these are rounded before they are added."""
    found: dict[str, Epilogue] = {}
    for stage in program.stages:
        if stage.reduction and stage.fold is None and stage.name not in program.outputs:
            members, _ = _members(program, stage)
            if not members:
                continue
            earlier = found.get(members[-1])
            if earlier is not None and (shorter := _narrowed(program, earlier, frozenset(members))):
                found[shorter[-1]] = Epilogue(earlier.reduction, shorter)
            found[members[-1]] = Epilogue(stage.name, members)
    return found


def _narrowed(program: Program, epilogue: Epilogue, others: frozenset[str]) -> tuple[str, ...]:
    """The members up to the last one that all passes through, of those that are no `others`, in a narrower dtype than the
    sums; none where there is no such one."""
    reduction = program.stage(epilogue.reduction)
    members, ends = _members(program, reduction)
    wide = reduction.tensors[0].dtype.bits
    narrow = [
        end
        for end in ends
        if others.isdisjoint(members[:end]) and program.stage(members[end - 1]).tensors[0].dtype.bits < wide
    ]
    return members[: max(narrow, default=0)]


def _members(program: Program, reduction: Stage) -> tuple[tuple[str, ...], list[int]]:
    """The members up to the last stage through which everything passes, and how many they are up to each such stage.

    They are met in the order of the program. `unmet` are readers of members that have not been met: when none is left but
    those of one member, everything passes through that.
    """
    inside = {reduction.name}
    members: list[str] = []
    ends = [0]
    unmet = {reader.name for reader in program.consumers[reduction.name]}
    while unmet:
        stage = program.stage(min(unmet, key=program.places.__getitem__))
        unmet.discard(stage.name)
        if not _joins(program, stage, inside):
            break
        inside.add(stage.name)
        members.append(stage.name)
        if not unmet:
            ends.append(len(members))
        if stage.name in program.outputs:
            break
        unmet |= {reader.name for reader in program.consumers[stage.name]}
    return tuple(members[: ends[-1]]), ends[1:]


def _joins(program: Program, stage: Stage, inside: set[str]) -> bool:
    """Says whether a stage may be a member. The same memory under another shape is none, but at the end of the program: no
    kernel writes it, so that what comes after it reads what the reduction has stored."""
    if stage.combiner is not None or len(stage.tensors) != 1:
        return False
    if stage.name not in program.outputs and is_reshape(program, stage):
        return False
    read = [r for r in stage.reads() if r.tensor in inside]
    return all(same_place(program, stage, r) for r in read)
