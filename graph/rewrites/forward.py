"""Forward windows: reductions that go backwards over what they slide on go forwards.

    y[p] = sum[r: 3](x[p - r + 1] * w[r])    ->    y[p] = sum[r: 3](x[p + r - 1] * w[2 - r])

Gradients of convolutions are such sums. What finds fast convolutions, borders and layouts looks for windows that go forwards.
"""

from __future__ import annotations

from dataclasses import replace

from ...tensor.dtype import i64
from ...tensor.expr import Const, Expr, Op, Var, substitute
from ...tensor.indices.affine import affine
from ...tensor.program import Axis, Program, Stage
from ...tensor.stage_edits import simplified, with_stages


def forward_windows(program: Program) -> Program:
    """The program whose windows all go forwards; sums have their terms in another order then."""
    turned = {stage.name: (_turned(stage, axes),) for stage in program.stages if (axes := _backward(stage))}
    return with_stages(program, dict(turned)) if turned else program


def _backward(stage: Stage) -> list[Axis]:
    """Reduction axes that move a dimension together with a spatial axis, and always against it."""
    if stage.combiner is None or stage.fold is not None:
        return []
    spatial = {axis.name for axis in stage.axes}
    signs: dict[str, set[bool]] = {axis.name: set() for axis in stage.reduction if axis.extent > 1}
    for index in (index for read in stage.reads() for index in read.indices):
        steps = {atom.name: step for atom, step in affine(index).terms if isinstance(atom, Var)}
        directions = {steps[name] > 0 for name in steps.keys() & spatial}
        if len(directions) == 1:
            for name in steps.keys() & signs.keys():
                signs[name].add((steps[name] > 0) in directions)
    return [axis for axis in stage.reduction if signs.get(axis.name) == {False}]


def _turned(stage: Stage, axes: list[Axis]) -> Stage:
    """The stage in which the axes run from their end to their beginning."""
    ends: dict[str, Expr] = {a.name: Op("sub", (Const(a.extent - 1, i64), a.var), i64) for a in axes}
    return simplified(replace(stage, bodies=tuple(substitute(body, ends) for body in stage.bodies)))
