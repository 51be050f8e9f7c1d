"""Loops that end where no point is of use any more (schedules/useful.py).

    for i.p0: for j.p0: 16 { s[i, j] = .. }     only s[i, j] with j <= i is of use
    ->  for i.p0: let n = min(1024, round up (i.p0 * 64 + 64)): for j.p0: ceil(n / 64) { .. }

Where the outermost loop of an axis opens, the places of the other axes say how far the axis can be of use. Ends are rounded up
to whole tiles, so that they cost no masks. A loop keeps one trip at least: a reduction stores what it has found in its first.
"""

from __future__ import annotations

from collections.abc import Callable

from ...schedules.loops import Loop, StageLoops
from ...schedules.useful import ends_early
from ...tensor.dtype import i64
from ...tensor.expr import Expr, Op, Var
from ...tensor.indices.affine import Affine, affine, interval, to_expr
from ...tensor.indices.bounds import Bound
from ..ir.index import ceil_div, floor_div, known, minus, number, plus, smaller, times
from ..ir.loop_ir import Let, Statement
from .view import AxisRange, Names, View, fixed


def shortened(
    names: Names, stage: StageLoops, loop: Loop, bounds: tuple[Bound, ...], view: View, run: Callable[[View], Statement]
) -> Statement:
    """The loop that `run` makes, ended where the bounds allow."""
    shorter = _narrowed(names, stage, loop, bounds, view)
    if shorter is None:
        return run(view)
    variable, size, view = shorter
    return Let(variable.name, size, run(view))


def _narrowed(
    names: Names, stage: StageLoops, loop: Loop, bounds: tuple[Bound, ...], view: View
) -> tuple[Var, Expr, View] | None:
    """(a variable, its value, the view in which it is the size of the loop's axis), where bounds shorten the loop."""
    step = ends_early(stage, loop) if bounds else None
    if step is None:
        return None
    place = view.places[stage.stage, loop.axis]
    size = place.size
    for bound in bounds:
        size = _smaller(names, size, _needed(names, stage, loop.axis, bound, view), fixed(step))
    if size is place.size:
        return None
    variable = names.variable(f"{loop.axis}.of_use", interval(place.size, names.bounds)[1] + 1)
    names.multiples[variable.name] = names.multiple(size)
    return variable, size, view.moved(stage.stage, loop.axis, AxisRange(place.position, variable))


def _needed(names: Names, stage: StageLoops, axis: str, bound: Bound, view: View) -> Expr:
    """Says how many points of an axis, from its position on, the bound leaves, where the other axes leave it the most."""
    least = Affine((), bound.constant)
    for name, coefficient in bound.coefficients.items():
        place = view.places[stage.stage, name]
        first = place.position
        if name != axis:
            first = first if coefficient > 0 else plus(first, plus(place.size, number(-1)))
        least = least.plus(affine(first), coefficient)
    # coefficient * (points - 1) + least <= 0
    coefficient = bound.coefficient(Var(axis))
    return plus(floor_div(times(to_expr(least), -1), coefficient, names.bounds), number(1))


def _smaller(names: Names, size: Expr, needed: Expr, step: int) -> Expr:
    """The smaller of two sizes, the second rounded up to whole steps, where it can be the smaller one."""
    rounded = times(ceil_div(needed, step, names.bounds), step)
    if interval(minus(rounded, size), names.bounds)[0] >= 0:
        return size
    if interval(rounded, names.bounds)[0] < 1:
        rounded = Op("max", (rounded, number(min(step, known(size) or 1))), i64)
    return smaller(size, rounded)
