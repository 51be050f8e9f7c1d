"""The rule of wide operands: narrow elements that are in many products become f32 once each, not once for each product.

An element that all lanes share takes as many instructions to widen as a vector of elements does, and each product of a register
tile needs both. So operands that are given are written as f32 first (tensor/rewrites/widen_reads.py), constants once for all.
Where few rows share a constant, memory bounds the whole, and it stays as narrow as it is. So does what the program computes
itself: what makes it may run where it is read.
"""

from __future__ import annotations

from ....tensor.dots import dot_of
from ....tensor.expr import walk
from ....tensor.program import Program, Stage
from ....tensor.rewrites.widen_reads import can_widen_reads, is_widening
from ...access import is_anchor, uses_of
from ...schedule import Schedule
from ..rule import Rule, nests_of_their_own, rewriting

LEAST_USES = 16  # of an element of data
LEAST_USES_OF_CONSTANTS = 64  # which are read from a far memory in each call


def _rewrite(s: Schedule) -> None:
    while s.allows("widen_reads") and (found := _next(s.program)) is not None:
        s.rewrite("widen_reads", stage=found[0], tensor=found[1])


def _next(program: Program) -> tuple[str, str] | None:
    """Returns the next stage to rewrite, and what it reads narrow."""
    for stage in program.stages:
        if not is_anchor(stage) or any(dot_of(node) for body in stage.bodies for node in walk(body)):
            continue
        for given in program.inputs:
            least, name = LEAST_USES_OF_CONSTANTS if given.constant else LEAST_USES, given.tensor.name
            if can_widen_reads(stage, name) and _uses(stage, name) >= least:
                return stage.name, name
    return None


def _uses(stage: Stage, tensor: str) -> int:
    """Returns how many terms each element of an operand is in, at least."""
    reads = [read for read in stage.reads() if read.tensor == tensor]
    return min(uses_of(stage, read) for read in reads)


def _wide(program: Program) -> frozenset[str]:
    """Returns the stages that only widen, for sums of products. A border, for one, widens what it copies by itself."""
    return frozenset(
        stage.name
        for stage in program.stages
        if is_widening(stage) and all(is_anchor(reader) for reader in program.consumers[stage.name])
    )


WIDEN = Rule("widen", rewriting(_rewrite))
WIDE_APART = Rule("wide operands", nests_of_their_own(_wide))
