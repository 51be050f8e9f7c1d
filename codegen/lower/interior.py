"""Tiles that lie inside of all borders: their points ask no guard, and clamps leave their indices as they are.

    t[i, j] = select(i - 1 >= 0, x[i - 1, j], 0) + x[min(i + 1, 99), j]

A tile that has all its points gets a body of its own anyway (nest.py). Where a few comparisons for the whole tile say that
every guard in it holds, that body is t[i, j] = x[i - 1, j] + x[i + 1, j]; all other tiles take the body with guards and masks.
Halide calls this the partitioning of loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ...tensor.dtype import boolean, i64
from ...tensor.expr import Const, Expr, Op, Var, rewrite
from ...tensor.indices.affine import Affine, affine, interval, to_expr
from ...tensor.indices.bounds import Bound, bound_of, conjuncts
from ...tensor.program import Stage
from ..ir.index import Bounds, both, less, number


@dataclass(frozen=True, slots=True)
class Interior:
    """The bounds that hold at every point inside of all borders, and what the stage computes there."""

    bounds: tuple[Bound, ...]
    bodies: tuple[Expr, ...]

    def asked(self, span: Mapping[str, tuple[Expr, Expr]], ranges: Bounds) -> tuple[Expr | None, bool]:
        """Returns (the condition for all points of a box to be inside, or None where it always holds; whether it can hold).

        span: the first and the last point along each axis.
        """
        condition: Expr | None = None
        for bound in self.bounds:
            most = Affine((), bound.constant)
            for axis, coefficient in bound.coefficients.items():
                most = most.plus(affine(span[axis][coefficient > 0]), coefficient)
            expr = to_expr(most)
            low, high = interval(expr, ranges)
            if low > 0:
                return None, False
            if high > 0:
                condition = both(condition, less(expr, number(1)))
        return condition, True


SELDOM = 8  # where one point in so many along an axis fails, it is no border


def interior_of(stage: Stage, leaving: frozenset[str], apart: frozenset[str] = frozenset()) -> Interior:
    """Returns what is asked of a stage's points, and its bodies without the questions.

    leaving: axes along which the stage is computed beyond the ends of its tensors, where it is nothing.
    apart: axes along which all of a tile is at one point. A question about such a point alone costs the tile next to nothing,
        so one that fails often stays in the body: tiles of which it fails would ask all others as well.
    """
    found, bodies = _without_guards(stage, apart)
    for axis in stage.axes:
        if axis.name in leaving:
            place = affine(Var(axis.name))
            found = (*found, place.times(-1), place.plus(Affine((), 1 - axis.extent)))
    most: dict[object, Bound] = {}
    for bound in found:  # of two that move alike, the one with the larger constant says it all
        other = most.get(bound.terms)
        most[bound.terms] = bound if other is None or bound.constant > other.constant else other
    return Interior(tuple(most.values()), bodies)


@lru_cache(maxsize=512)
def _without_guards(stage: Stage, apart: frozenset[str]) -> tuple[tuple[Bound, ...], tuple[Expr, ...]]:
    bounds: list[Bound] = []
    axes = {axis.name for axis in stage.all_axes}
    extents = {axis.name: axis.extent for axis in stage.all_axes if axis.name in apart}

    def holds(*conditions: Expr) -> bool:
        """Tells whether these are comparisons of axes, which are noted down then."""
        asked = [bound for one in conditions if (bound := bound_of(one)) is not None and axes >= {*bound.coefficients}]
        if len(asked) < len(conditions) or any(_fails_often(bound, extents) for bound in asked):
            return False
        bounds.extend(asked)
        return True

    def within(node: Expr) -> Expr | None:
        """Looks through a choice that a guarded value makes itself."""
        match node:
            case Op(name="select", args=(condition, value, _)) if holds(*conjuncts(condition)):
                return value
        return None

    def plain(node: Expr) -> Expr | None:
        match node:
            case Op(name="select", args=(condition, value, Const())) if holds(*conjuncts(condition)):
                chosen = within(value)
                return value if chosen is None else chosen
            case Op(name="min" | "max" as name, args=(Const() as limit, inner) | (inner, Const() as limit)) if (
                node.dtype == i64
            ):
                return inner if holds(Op("le" if name == "min" else "ge", (inner, limit), boolean)) else None
        return None

    bodies = tuple(rewrite(body, plain) for body in stage.bodies)
    return tuple(bounds), bodies


def _fails_often(bound: Bound, extents: Mapping[str, int]) -> bool:
    """Tells whether a bound asks about the point along one of these axes alone, and many points fail."""
    ((axis, times), *others) = bound.coefficients.items() if bound.coefficients else [("", 0)]
    if others or axis not in extents:
        return False
    last = -bound.constant // times if times > 0 else -(bound.constant // times)  # the last, or the first, that holds
    failing = extents[axis] - 1 - last if times > 0 else last
    return failing * SELDOM >= extents[axis]
