"""Which register tiles have all their points, and which of these lie inside of all borders: conditions for a tile at once."""

from __future__ import annotations

from typing import Protocol

from ...schedules.loops import Loop, StageLoops
from ...schedules.regions import full_tile, opening
from ...tensor.expr import Expr
from ...tensor.program import Stage
from ..ir.index import both, known, less, number, plus
from .loops import Around
from .view import Names, View, fixed


class StageAround(Protocol):
    """Names what is asked of the lowering of a stage: its loops, and the nest that it stands in."""

    nest: Around
    names: Names
    stage: StageLoops
    loops: tuple[Loop, ...]
    definition: Stage
    full: tuple[bool, ...]
    reduces: tuple[bool, ...]


def whole(lowering: StageAround, view: View) -> tuple[Expr | None, bool]:
    """Returns the condition for a tile to have all its points, None where it always has; and whether it can have them."""
    condition: Expr | None = None
    for axis, tile in _tile_points(lowering).items():
        size = view.places[lowering.stage.stage, axis].size
        points = known(size)
        if points is not None and points < tile:
            return None, False
        if points is None and not _always_whole(lowering, axis, tile):
            condition = both(condition, less(number(tile - 1), size))
    return condition, True


def inside(lowering: StageAround, view: View) -> tuple[Expr | None, bool]:
    """Returns the condition for a whole tile to lie inside of all borders, and whether it has a body without guards."""
    if lowering.nest.target.is_gpu:
        return None, False
    interior = lowering.nest.body.interior(lowering.stage)
    if not interior.bounds:
        return None, False
    span = {}
    tile = _tile_points(lowering)
    for axis in lowering.definition.all_axes:
        place = view.places[lowering.stage.stage, axis.name]
        last = number(tile[axis.name] - 1) if axis.name in tile else plus(place.size, number(-1))
        span[axis.name] = (place.position, plus(place.position, last))
    return interior.asked(span, lowering.names.bounds)


def _tile_points(lowering: StageAround) -> dict[str, int]:
    """Counts the points of the register tile along each axis that it has several of."""
    loops = zip(lowering.loops, lowering.full, lowering.reduces, strict=True)
    axes = dict.fromkeys(loop.axis for loop, full, reduces in loops if full and not reduces)
    return {axis: fixed(full_tile(lowering.nest.tree, lowering.stage, axis)) for axis in axes}


def _always_whole(lowering: StageAround, axis: str, tile: int) -> bool:
    """Tells whether tiles fill every box: the loops between step by multiples of the tile."""
    sizes = opening(lowering.nest.tree, lowering.stage).sizes[axis]
    return all(fixed(size) % tile == 0 for size, count in sizes if fixed(count))
