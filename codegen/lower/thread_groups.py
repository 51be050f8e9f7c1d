"""Who runs the loops of a stage on a GPU: which threads share them, and which trip each thread takes.

A *team* is the threads that run a stage together: those of a block, those of a warp (inside of WARP loops), or one thread alone
(inside of THREAD loops). The THREAD loops of a stage form one linear index over its team: loops of dimension 0 count fastest,
then 1, then 2; inside of one dimension the innermost loop. If the stage has WARP loops too, these count the warps of the
block and its THREAD loops the lanes of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...schedules.loops import Loop, LoopKind, LoopTree, StageLoops
from ...schedules.plan.threads import GRID, bound, width_of
from ...schedules.plan.threads import threads_of as asked_of
from ...targets.target import Target
from ...tensor.expr import Expr
from ..ir.index import Bounds, floor_div, modulo, number
from ..ir.loop_ir import THREAD_INDEX
from .view import Team, fixed


@dataclass(frozen=True, slots=True)
class BoundLoop:
    """A bound loop: trip = (index of the group // divisor) % extent."""

    loop: Loop
    divisor: int
    extent: int


@dataclass(frozen=True, slots=True)
class Group:
    """Loops of one linear index over the threads, the lanes of a warp or the warps of a block: `index` runs to `size`."""

    index: Expr
    size: int
    pieces: tuple[BoundLoop, ...]  # fastest first

    @property
    def items(self) -> int:
        """Trips of all its loops together."""
        return prod(piece.extent for piece in self.pieces)

    @property
    def strides(self) -> bool:
        """Says whether there are more items than threads."""
        return self.items > self.size

    def names(self) -> frozenset[str]:
        """Returns the names of its loops."""
        return frozenset(piece.loop.name for piece in self.pieces)


def groups(stage: StageLoops, team: Team, bounds: Bounds, warp: int) -> tuple[Group, ...]:
    """Says how the THREAD and WARP loops of a stage are divided over its team; a team of several has one group or two."""
    if team.size == 1:
        return ()
    warps = bound(stage, LoopKind.WARP)
    if not warps:
        return (_group(team.index, team.size, bound(stage, LoopKind.THREAD)),)
    lane, number_of_warp = modulo(team.index, warp, bounds), floor_div(team.index, warp, bounds)
    lanes = _group(lane, warp, bound(stage, LoopKind.THREAD))
    return lanes, _group(number_of_warp, team.size // warp, warps)


def _group(index: Expr, size: int, loops: list[Loop]) -> Group:
    pieces: list[BoundLoop] = []
    divisor = 1
    for loop in loops:
        pieces.append(BoundLoop(loop, divisor, fixed(loop.extent)))
        divisor *= fixed(loop.extent)
    return Group(index, size, tuple(pieces))


def threads_of(tree: LoopTree, root: StageLoops, target: Target) -> int:
    """Says how many threads a block of a root has."""
    return fixed(width_of(asked_of(tree, root, target.gpu), target.gpu))


def whole_block(threads: int) -> Team:
    """The team of all threads."""
    return Team(threads, THREAD_INDEX if threads > 1 else number(0))


def blocks(stage: StageLoops, index: Expr) -> Group:
    """Says how the BLOCK loops of a root are divided over the blocks; loops made for the threads of a CPU count as such."""
    found = sorted(bound(stage, *GRID), key=lambda loop: loop.dimension)
    group = _group(index, 1, found)
    return Group(index, group.items, group.pieces)
