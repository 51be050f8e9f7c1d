"""Reductions at computed places: each term belongs to one place along some axes, and that is read or computed.

    h[b: 256] = sum[i: 4096](select(b == i64(x[i]), 1, 0))         term i belongs to place x[i]
    h[b: 256] = sum[i: 4096](i32(b == i64(x[i])))                  the same
    y[r: 99, j: 64] = sum[k: 1000](select(r == index[k], u[k, j], 0))

Such an axis (b, r) is *scattered*: a term touches one of its points, so nobody has to go over them. A place outside of the
axis meets no point of it, and adds nothing. The language has no other word for it; whoever lowers, counts or evaluates a
reduction asks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...common.remembered import remembered
from ..dtype import i64
from ..expr import Cast, Const, Expr, Op, Read, Var, variables, walk
from ..identity import identity
from ..program import Stage
from .affine import affine
from .bounds import conjuncts
from .forms import to_expr


@dataclass(frozen=True, slots=True)
class Scattered:
    """A reduction at computed places.

    places: scattered axis -> the place of a term along it, an i64; in the order of the axes.
    guards: conditions of terms. What a later one reads is read where those before it hold, as are places and value.
    value: what is combined with what is at the place.
    """

    places: dict[str, Expr]
    guards: tuple[Expr, ...]
    value: Expr


@remembered
def scattered(stage: Stage) -> Scattered | None:
    """Says at which places a reduction combines its terms; None for one whose places are known without reading."""
    if stage.combiner in (None, "fold"):
        return None
    terms = _terms(stage)
    if terms is None:
        return None
    conditions, value = terms
    axes = [axis.name for axis in stage.axes]
    found: dict[str, Expr] = {}
    guards = []
    for condition in conditions:
        axis, place = _place(condition, stage)
        if axis and axis not in found and place is not None:
            found[axis] = place
        else:
            guards.append(condition)
    used = frozenset().union(*(variables(expr) for expr in (*guards, value, *found.values())))
    if not found or used & found.keys():
        return None
    return Scattered({axis: found[axis] for axis in axes if axis in found}, tuple(guards), value)


def scattered_points(stage: Stage) -> int:
    """Counts the points that each term of a reduction leaves alone and the one that it meets; 1 for any other stage."""
    found = scattered(stage)
    return 1 if found is None else prod(stage.axis(axis).extent for axis in found.places)


def _terms(stage: Stage) -> tuple[list[Expr], Expr] | None:
    """The conditions under which a term counts, outermost first, and the term; None without any."""
    assert stage.combiner is not None
    (value,) = stage.bodies
    nothing = identity(stage.combiner, value.dtype)
    conditions: list[Expr] = []
    while isinstance(value, Op) and value.name == "select" and value.args[2] == nothing:
        conditions += conjuncts(value.args[0])
        value = value.args[1]
    if stage.combiner == "sum" and isinstance(value, Cast) and value.arg.dtype.name == "bool":
        conditions += conjuncts(value.arg)
        value = Const(1.0 if value.dtype.is_float else 1, value.dtype)
    return (conditions, value) if conditions else None


def _place(condition: Expr, stage: Stage) -> tuple[str, Expr | None]:
    """The axis whose place a condition gives, and the place: `axis == place`, with a read that moves with the terms in it."""
    if not isinstance(condition, Op) or condition.name != "eq" or not condition.args[0].dtype.is_integer:
        return "", None
    reduction = {axis.name for axis in stage.reduction}
    left, right = condition.args
    if left.dtype != i64:
        return _narrow_place(left, right, stage)
    difference = affine(left).minus(affine(right))
    for axis in stage.axes:
        own = difference.coefficient(axis.var)
        if abs(own) != 1:
            continue
        place = to_expr(difference.plus(affine(axis.var), -own).times(-own))
        if axis.name not in variables(place) and _moves(place, reduction):
            return axis.name, place
    return "", None


def _narrow_place(left: Expr, right: Expr, stage: Stage) -> tuple[str, Expr | None]:
    """The same where the axis is compared in a narrow type that holds all of it."""
    for this, other in ((left, right), (right, left)):
        if not isinstance(this, Cast) or not isinstance(this.arg, Var):
            continue
        axis = next((a for a in stage.axes if a.name == this.arg.name), None)
        bits = this.dtype.bits - (this.dtype.kind.value == "signed")
        fits = axis is not None and axis.extent <= 1 << bits
        if axis is not None and fits and _moves(other, {a.name for a in stage.reduction}):
            return axis.name, other.cast(i64)
    return "", None


def _moves(place: Expr, reduction: set[str]) -> bool:
    reads = [node for node in walk(place) if isinstance(node, Read)]
    return any(variables(read) & reduction for read in reads)
