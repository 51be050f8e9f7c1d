"""Sums whose terms are divided over threads: how many of their parts meet in the shared memory of a block."""

from __future__ import annotations

from ..extents import Condition, Extent, as_extent, product
from ..loops import LoopKind, LoopTree, StageLoops
from .conditions import at_most, every, opposite, same, some
from .threads import bound, level


def parts_of(tree: LoopTree, stage: StageLoops, width: Extent, warp: int) -> Extent:
    """Elements that a sum of a stage has in shared memory; 0 where no threads share its terms, or shuffles put them together.

    Where the whole team sums up one value, it is one part for each warp. Else each thread of the team has one, and the trips of
    its loops. `width`: threads of a block; `warp`: of a warp.
    """
    reduced = {axis.name for axis in tree.definition(stage.stage).reduction}
    own = level(tree, stage)
    if own is LoopKind.THREAD or not any(loop.axis in reduced for loop in bound(stage)):
        return 0
    team = warp if own is LoopKind.WARP else width
    together = every(same(loop.extent, 1) for loop in bound(stage) if loop.axis not in reduced)
    several = opposite(at_most(team, warp))
    left = some(_beyond_shuffles(stage, reduced, warp))
    items = product([loop.extent for loop in bound(stage)])
    whole = _where(every((together, several)), team // warp)
    return whole + _where(every((opposite(together), left)), team + items)


def _beyond_shuffles(stage: StageLoops, reduced: set[str], warp: int) -> list[Condition]:
    """Says of each loop that divides terms whether xor of lane numbers leaves it: it reaches no power of two inside of a
    warp."""
    found: list[Condition] = []
    for kind, first in ((LoopKind.THREAD, 1), (LoopKind.WARP, warp)):
        reach: Extent = first
        for loop in bound(stage, kind):
            reach = reach * loop.extent
            powers = some(same(reach, 1 << bits) for bits in range(warp.bit_length()))
            leaves = every((opposite(powers), opposite(same(loop.extent, 1))))
            found.append(leaves if loop.axis in reduced else False)
    return found


def _where(condition: Condition, number: Extent) -> Extent:
    """The number where a condition holds, else 0."""
    return as_extent(condition) * number
