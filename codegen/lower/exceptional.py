"""Sums that stand in where something is no ordinary number (tensor/exceptional.py): tiles that do not ask have no terms.

    for k { vector l { acc[l] += select(bad(p[l]), x[k] * y[k, l], 0) } }
->  some = false;  vector l { some = some or bad(p[l]) }
    if some: for k { vector l { acc[l] += select(bad(p[l]), x[k] * y[k, l], 0) } }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...schedules.loops import Loop
from ...tensor.dtype import boolean
from ...tensor.exceptional import exceptional_condition
from ...tensor.expr import Const, Expr, Read, walk
from ..ir.loop_ir import Allocate, Block, Buffer, If, Scope, Statement, Store, Update
from .view import View

if TYPE_CHECKING:
    from .nest import StageLowering


def where_asked(lowering: StageLowering, view: View, depth: int, tile: Sequence[Loop], terms: Statement) -> Statement:
    """The terms of a tile of points, if some point asks for them.

    depth: of the outermost loop of the terms; tile: those loops inside that run over points.
    On a GPU always: threads meet inside of loops, so all have to come. So too where what the points are asked about is made
    among the terms.
    """
    condition = exceptional_condition(lowering.definition)
    if condition is None or lowering.nest.target.is_gpu or _made_inside(lowering, depth, condition):
        return terms
    some = Buffer(lowering.names.fresh(f"{lowering.stage.stage}.some"), boolean, (), Scope.REGISTER, padded=True)

    def asks(v: View) -> Statement:
        wanted = lowering.nest.body.guarded(lowering.stage, condition, v, Const(False, boolean))
        return Update(some.name, (), "max", wanted)

    steps = (
        Store(some.name, (), Const(False, boolean)),
        lowering.alone(view, tile, asks),
        If(Read(some.name, (), boolean), terms),
    )
    return Allocate(some, Block(steps))


def _made_inside(lowering: StageLowering, depth: int, condition: Expr) -> bool:
    """Says whether something that a condition reads is attached inside of the loops from `depth` on."""
    tree = lowering.nest.tree
    inside = {
        name for loop in lowering.loops[depth:] for name in tree.attached.get((lowering.stage.stage, loop.name), ())
    }
    made = {tensor.name for name in inside for tensor in tree.definition(name).tensors}
    return any(isinstance(node, Read) and node.tensor in made for node in walk(condition))
