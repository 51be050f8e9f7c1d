"""How many operations a stage asks for: each as it is written, but for points that are of no use; equal ones count once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..targets.matrix_instructions import products_of
from ..tensor.dtype import boolean
from ..tensor.expr import Const, Expr, Local, Op, Read, Var, children, rewrite, walk
from ..tensor.indices.bounds import Bound
from ..tensor.indices.scatter import scattered_points
from ..tensor.language import ARITHMETIC, MATHEMATICS
from ..tensor.program import Stage
from ..tensor.rewrites.dot_words import guarded_dot_of_stage
from ..tensor.stage_edits import map_stage
from .useful import points_of_use


def stage_operations(stage: Stage, bounds: Sequence[Bound]) -> dict[str, int]:
    """Operations by dtype name, or by that of sums of products of narrow elements, which a target may have an instruction for;
    `bounds` are those of the stage that `useful` finds."""
    operations: dict[str, int] = {}
    points = points_of_use(stage, tuple(bounds)) // scattered_points(stage)
    found = guarded_dot_of_stage(map_stage(stage, _without_border))
    if found is not None:
        return {products_of(found[0].left, found[0].right): 2 * points}
    counts: dict[int, _Count] = {}
    for expr in stage.expressions:
        moving = points if stage.fold is None else _points_of_step(stage, expr)
        counts.setdefault(moving, _Count(moving, operations)).add(expr)
    if stage.combiner in ("sum", "prod", "max", "min"):
        name = stage.bodies[0].dtype.name
        operations[name] = operations.get(name, 0) + points
    return operations


def _without_border(body: Expr) -> Expr:
    """The expression where data are read everywhere: a border of numbers around them is multiplied like them."""

    def read(node: Expr) -> Expr | None:
        match node:
            case Op(name="select", args=(_, Read() as data, Const())):
                return data
        return None

    return rewrite(body, read)


def _points_of_step(stage: Stage, expr: Expr) -> int:
    """Says how often a fold needs an expression at least: once at each point of the axes that move it, at every step."""
    assert stage.fold is not None
    moving = {stage.reduction[0].name}
    known = dict(stage.fold.locals)
    pending = [expr]
    while pending:
        for node in walk(pending.pop()):
            if isinstance(node, Var):
                moving.add(node.name)
            elif isinstance(node, Local):
                pending.append(known[node.name])
    return prod(axis.extent for axis in stage.all_axes if axis.name in moving)


class _Count:
    """Adds the arithmetic of expressions at `points` points; equal expressions among them, and parts of them, count once.

    Indices, comparisons, choices and casts are not counted. Equal ones have equal numbers, given from the leaves on, so that
    nothing is compared in depth.
    """

    def __init__(self, points: int, operations: dict[str, int]) -> None:
        self._points, self._operations = points, operations
        self._numbers: dict[tuple[object, ...], int] = {}
        self._counted: set[int] = set()

    def add(self, expr: Expr, *, counts: bool = True) -> int:
        """The number of an expression, which is counted unless an equal one was."""
        counts = counts and not isinstance(expr, Read) and expr.dtype != boolean
        parts = () if isinstance(expr, Read) else tuple(self.add(child, counts=counts) for child in children(expr))
        name = expr.name if isinstance(expr, Op) else type(expr)
        key = (name, expr.dtype, parts) if parts else (expr,)
        number = self._numbers.setdefault(key, len(self._numbers))
        is_work = isinstance(expr, Op) and (expr.name in ARITHMETIC or expr.name in MATHEMATICS)
        if is_work and counts and number not in self._counted:
            self._counted.add(number)
            self._operations[expr.dtype.name] = self._operations.get(expr.dtype.name, 0) + self._points
        return number
