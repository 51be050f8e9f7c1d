"""Where the straight code of a stage begins: its unrolled and vectorized loops, which run once for each trip around them.

A serial loop of one trip is no loop in the code, so straight code goes on behind it, if there is some. Which loops have one
trip may differ from candidate to candidate: so there is a list of beginnings, and the first whose condition holds is the one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..extents import Condition
from ..loops import LoopKind, StageLoops
from .conditions import every, possible, same
from .loops import LoopPlan


@dataclass(frozen=True, slots=True)
class Beginning:
    """One of the places where straight code may begin: so many loops that are run stand around it. `when`: for which
    candidates, if no beginning before it holds."""

    depth: int
    when: Condition = True


def beginnings(stage: StageLoops, planned: LoopPlan, gpu: bool) -> tuple[Beginning, ...]:
    """The places that some candidate has, outermost first; on a GPU, where nobody asks, as if no loop had one trip.

    No other stage runs inside of a loop that straight code stands around: its work would be nobody's.
    """
    loops = [loop for loop in stage.loops if loop.name not in planned.aside]
    full = [is_full for loop, is_full in zip(stage.loops, planned.full, strict=True) if loop.name not in planned.aside]
    depth = _outermost(full, len(loops) - (stage.tensorized is not None))  # the words of a tile are no loop
    found = [Beginning(depth)]
    when: Condition = not gpu
    while when is not False:
        around = depth
        while around and loops[around - 1].kind is LoopKind.SERIAL:
            around -= 1
        if around in (0, depth) or not full[around - 1]:
            break
        when = every((when, *(same(loop.extent, 1) for loop in loops[around:depth])))
        depth = _outermost(full, around)
        found.insert(0, Beginning(depth, when))
    return possible(found)


def _outermost(full: list[bool], depth: int) -> int:
    """Goes out from a depth through all loops that are run in full."""
    while depth and full[depth - 1]:
        depth -= 1
    return depth
