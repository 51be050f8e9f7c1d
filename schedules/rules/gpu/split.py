"""The splitting rule on GPUs: a reduction with too few results to fill the machine.

Parts of it run in blocks of their own, and a second launch adds what they give (`split_k` in tensor/rewrites/axes.py).
"""

from __future__ import annotations

from math import prod

from ....tensor.program import Program, Stage
from ...schedule import Schedule
from ..rule import Rule, rewriting
from .stream import lane_axis
from .tile import can_tile

# Points of a result that give every multiprocessor enough threads: where each thread makes a few of them, where a warp or a
# block makes one, where a block makes a tile.
BUSY, ROWS_BUSY, TILES_BUSY = 1 << 18, 1 << 10, 1 << 20
PARTS = (8, 64, 512)
TILE_PARTS = (4, 16)
SHORTEST_PART = 64  # terms of a part
TILE_SHORTEST_PART = 256


def _rewrite(s: Schedule) -> None:
    """Splits the only long reduction whose result has too few points to keep the machine busy."""
    found = [stage for stage in s.program.stages if _parts(s.program, stage)]
    if len(found) != 1:
        return
    stage = found[0]
    longest = max(stage.reduction, key=lambda a: a.extent)
    parts = s.variant(f"split {stage.name}", [1, *_parts(s.program, stage)])
    if parts > 1:
        s.rewrite("split_k", stage=stage.name, axis=longest.name, parts=parts)


def _parts(program: Program, stage: Stage) -> list[int]:
    """Returns in how many parts a reduction is worth splitting: all together should not do more than fill the machine."""
    if stage.combiner in (None, "fold"):
        return []
    points = prod(a.extent for a in stage.axes)
    longest = max((a.extent for a in stage.reduction), default=1)
    options: tuple[int, ...]
    busy, options, shortest = BUSY, PARTS, SHORTEST_PART
    if can_tile(program, stage, stage):
        busy, options, shortest = TILES_BUSY, TILE_PARTS, TILE_SHORTEST_PART
    elif lane_axis(program, stage) in {a.name for a in stage.reduction}:
        busy = ROWS_BUSY
    return [p for p in options if points * p <= 4 * busy and points <= busy and longest >= p * shortest]


SPLIT = Rule("split", rewriting(_rewrite))
