"""Where an attached stage runs: the box that it covers at a place in its reader, and which trips are the first to read it."""

from __future__ import annotations

from ...schedules.boxes import box_axes, kept_points
from ...schedules.loops import LoopTree
from ...tensor.dtype import boolean
from ...tensor.expr import Expr, Op
from ..ir.index import Bounds, both, floor_div, number, plus, smaller, times
from .view import AxisRange, View, fixed


def box_in(
    tree: LoopTree, name: str, view: View, bounds: Bounds
) -> tuple[dict[tuple[str, str], AxisRange], dict[str, Expr]]:
    """Returns the places of a view with those of an attached stage that is opened there, and where its box begins."""
    stage = tree.by_stage[name]
    assert stage.at is not None
    outer, kept = stage.at[0], kept_points(tree, stage)
    origins: dict[str, Expr] = {}
    places = dict(view.places)
    for axis, box in box_axes(tree, name, stage.at).items():
        position: Expr = number(box.low)
        size: Expr = number(box.high - box.low + 1)
        for outer_axis, coefficient in box.terms:
            place = view.places[outer, outer_axis]
            position = plus(position, times(place.position, coefficient))
            size = plus(size, times(plus(place.size, number(-1)), coefficient))
        if box.divisor > 1:
            # The last of the points before they are divided, from where the first one begins.
            last = plus(size, number(box.low - 1))
            position = floor_div(position, box.divisor, bounds)
            size = plus(floor_div(last, box.divisor, bounds), number(1 - box.low // box.divisor))
        position, size = times(position, box.times), times(size, box.times)
        origins[axis] = position
        if axis in kept:
            loop, trip = tree.by_stage[outer].loop(stage.at[1]), view.variables[stage.at[1]]
            later = times(smaller(trip, number(1)), kept[axis])  # 0 in the first trip
            origins[axis] = plus(position, times(trip, -box.step(loop.axis) * fixed(loop.stride)))
            position, size = plus(position, later), plus(size, times(later, -1))
        places[name, axis] = AxisRange(position, size)
    return places, origins


def first_trip(tree: LoopTree, name: str, view: View) -> Expr | None:
    """Says whether a trip of a loop inside of the one that a stage is attached to is the first that reads what it reads of it:
    loops between that do not move its box are at their first trips. None where each trip reads something else."""
    stage = tree.by_stage[name]
    assert stage.at is not None
    moving = {axis for box in box_axes(tree, name, stage.at).values() for axis, _ in box.terms}
    first: Expr | None = None
    for loop in tree.loops_of_use(stage):
        if loop.axis not in moving:
            first = both(first, Op("eq", (view.variables[loop.name], number(0)), boolean))
    return first
