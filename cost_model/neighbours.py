"""What points of a stage compute and read alike, some places further along an axis: a block that is written out has it once.

y[i] = (x[i] + z[i]) * 2 + (x[i + 1] + z[i + 1])        of four rows: four sums, and one more
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ..schedules.plan.registers import NEAR_LOADS, rows_of
from ..tensor.dtype import DType
from ..tensor.expr import Expr, Read, Var, children, variables, walk
from ..tensor.indices.affine import affine
from ..tensor.program import Stage
from .footprint import Value
from .levels import StageLevels

# What a node is but for its place along the axis, and the place; None: it has none.
MovedNode = tuple[object, int | None]


@lru_cache(maxsize=256)
def distances(stage: Stage, axis: str) -> dict[Expr, int]:
    """Nodes of a stage's bodies that are another node, moved along an axis -> how far behind the nearest such one they are.

    So of n neighbouring points, a node at a distance d is computed anew by min(n, d).
    """
    numbers: dict[object, int] = {}
    known: dict[Expr, MovedNode] = {}
    alike: dict[object, list[tuple[int, Expr]]] = defaultdict(list)

    def visit(node: Expr) -> MovedNode:
        if node not in known:
            if isinstance(node, Read):
                what, place = _read(node, axis)
            else:
                what, place = _other(node, axis, [visit(child) for child in children(node)])
            known[node] = numbers.setdefault(what, len(numbers)), place
            if place is not None:
                alike[known[node][0]].append((place, node))
        return known[node]

    for body in stage.bodies:
        visit(body)
    found: dict[Expr, int] = {}
    for nodes in alike.values():
        nodes.sort(key=lambda pair: pair[0])
        found |= {node: place - before for (before, _), (place, node) in pairwise(nodes)}
    return found


@lru_cache(maxsize=256)
def waiting(stage: Stage, axis: str) -> dict[int, float]:
    """Values for each lane that may wait for a point further on, by how far that is: of those shared nodes that what is not
    shared uses. A value of more bits than an element of the stage takes several."""
    behind = distances(stage, axis)
    used = {child for body in stage.bodies for node in walk(body) if node not in behind for child in children(node)}
    found: dict[int, float] = defaultdict(float)
    for node in used & behind.keys():
        found[behind[node]] += width(stage, node.dtype)
    return dict(found)


def held(stage: Stage, axis: str, points: Value) -> Value:
    """Counts the values for each lane that wait at once, in a block of so many points along an axis.

    What is as far behind as the block has points is computed anew for each of them.
    """
    total: Value = 0.0
    for distance, values in waiting(stage, axis).items():
        total = total + values * np.minimum(distance, np.maximum(points - distance, 0.0))
    return total


def width(stage: Stage, dtype: DType) -> float:
    """Vectors that hold what one vector of a stage's elements becomes in another type."""
    return max(1.0, dtype.bits / max(8, *(tensor.dtype.bits for tensor in stage.tensors)))


def _read(read: Read, axis: str) -> MovedNode:
    if not any(axis in variables(index) for index in read.indices):
        return read, None
    forms = [affine(index) for index in read.indices]
    moving = [form for form in forms if axis in form.coefficients]
    whole = all(
        axis in form.coefficients or axis not in variables(i) for form, i in zip(forms, read.indices, strict=True)
    )
    if not whole or any(form.coefficients[axis] != 1 for form in moving):
        return read, 0
    place = moving[0].constant
    return (read.tensor, *((f.terms, f.constant - place if f in moving else f.constant) for f in forms)), place


def _other(node: Expr, axis: str, inside: list[MovedNode]) -> MovedNode:
    if isinstance(node, Var):
        return node, 0 if node.name == axis else None
    if not inside:
        return node, None
    first = min((place for _, place in inside if place is not None), default=None)
    relative = tuple((what, None if place is None else place - (first or 0)) for what, place in inside)
    return (type(node), getattr(node, "name", ""), node.dtype, relative), first


def kept_apart(stage: StageLevels, sums: Value, vector: str, registers: int) -> Value:
    """1 where the vectors of a sum, along one axis, fill the registers: its steps are kept apart then, none has what an earlier
    one loaded."""
    if not stage.definition.reduction or stage.registers is None:
        return 0.0
    room = registers - NEAR_LOADS * rows_of(stage.definition.bodies, {vector}) - 1.0
    return np.where(sums > room, 1.0, 0.0)
