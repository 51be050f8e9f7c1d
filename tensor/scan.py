"""Scans: tensors of a fold of which each step writes the elements at its own place along one axis, and nothing else.

    y = select(j == k, value, y[i, j])          k: the ordered axis

Such an axis j is *written in step*: step k touches y[i, k] alone, so nobody has to go over j. The language has no other
word for it; whoever lowers or evaluates a fold asks here.
"""

from __future__ import annotations

from dataclasses import dataclass

from .expr import Expr, Local, Op, Read, Var, rewrite, variables, walk
from .indices.affine import affine
from .indices.forms import Affine, to_expr
from .program import Stage


@dataclass(frozen=True, slots=True)
class InStep:
    """`axis` is written in step: at `place`, an expression of the ordered axis, with `value`, which `axis` does not move."""

    axis: str
    place: Expr
    value: Expr


def written_in_step(stage: Stage, number: int) -> InStep | None:
    """Says how tensor `number` of a fold is written in step, or None where it is not. Values come without locals."""
    if stage.fold is None:
        return None
    tensor, ordered = stage.tensors[number], stage.reduction[0]
    bodies = without_locals(stage)
    body = bodies[number]
    own = Read(tensor.name, tuple(axis.var for axis in stage.axes_of(number)), tensor.dtype)
    if not isinstance(body, Op) or body.name != "select" or body.args[2] != own:
        return None
    condition, value, _ = body.args
    elsewhere = [value, *(other for n, other in enumerate(bodies) if n != number)]
    if any(isinstance(node, Read) and node.tensor == tensor.name for expr in elsewhere for node in walk(expr)):
        return None
    for axis in stage.axes_of(number):
        place = _place(condition, axis.name, ordered.name)
        if place is None or axis.extent != ordered.extent or axis.name in variables(value):
            continue
        ends = {place.constant + place.coefficient(ordered.var) * end for end in (0, ordered.extent - 1)}
        if ends == {0, axis.extent - 1}:
            return InStep(axis.name, to_expr(place), value)
    return None


def without_locals(stage: Stage) -> tuple[Expr, ...]:
    """The bodies of a fold with named values written out."""
    assert stage.fold is not None
    known: dict[str, Expr] = {}

    def expand(node: Expr) -> Expr | None:
        return known[node.name] if isinstance(node, Local) else None

    for name, expr in stage.fold.locals:
        known[name] = rewrite(expr, expand)
    return tuple(rewrite(body, expand) for body in stage.bodies)


def _place(condition: Expr, axis: str, ordered: str) -> Affine | None:
    """The p of a condition axis == p, where p is the ordered axis, or it turned around, and a number."""
    if not isinstance(condition, Op) or condition.name != "eq" or condition.args[0].dtype.name != "i64":
        return None
    difference = affine(condition.args[0]).minus(affine(condition.args[1]))
    own = difference.coefficient(Var(axis))
    if (
        abs(own) != 1
        or not difference.is_linear
        or {v.name for v, _ in difference.terms if isinstance(v, Var)} != {axis, ordered}
    ):
        return None
    place = difference.plus(Affine(((Var(axis), 1),), 0), -own).times(-own)
    return place if abs(place.coefficient(Var(ordered))) == 1 else None
