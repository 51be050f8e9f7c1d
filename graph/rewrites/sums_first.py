"""Sums first: a sum over products' results becomes products of sums, where that is less work.

    y[n, o, p, q] = sum[c](x[n, c, p, q] * w[o, c])              u[n, c, p, q] = sum[r, s](x[n, c, 2 p + r, 2 q + s])
    t[n, o, p, q] = sum[r, s](y[n, o, 2 p + r, 2 q + s])    ->   t[n, o, p, q] = sum[c](u[n, c, p, q] * w[o, c])

An average of 2 x 2 points behind a convolution of 1 x 1 reads four times as many of its results as it has of its own: the
average of the data comes first, and a quarter of the products is left. The other order of sums has errors of the same size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...schedules.access import points_of
from ...tensor.dtype import f32, f64, i64
from ...tensor.expr import Const, Expr, Op, Read, const, reads, substitute, variables
from ...tensor.indices.affine import simplify
from ...tensor.program import Axis, Program, Stage, Tensor
from ...tensor.stage_edits import factors, free_name, product, result_of, shape_of, with_stages

WORTH = 1.5  # times as many multiply-adds before as after


def sums_first(program: Program) -> Program:
    """The program with sums of sums of products exchanged where that is less work."""
    replaced: dict[str, tuple[Stage, ...]] = {}
    for outer in program.stages:
        found = _nested(program, outer)
        if found is not None and found.inner.name not in replaced:
            stages = _exchanged(program, found)
            if stages is not None:
                replaced |= {found.inner.name: (), outer.name: stages}
    return with_stages(program, replaced) if replaced else program


@dataclass(frozen=True, slots=True)
class _Nested:
    """A sum over results of a sum of products. `read`: of these results; `guard`: where it counts, if not everywhere.
    `at`: what stands for each axis of the inner stage."""

    outer: Stage
    inner: Stage
    read: Read
    guard: Expr | None
    at: Mapping[str, Expr]

    def renamed(self, axis: Axis) -> Axis:
        """A reduction axis of the inner stage, by a name that no axis of the outer one has."""
        taken = {other.name for other in self.outer.all_axes}
        return axis if axis.name not in taken else Axis(f"{axis.name}_inner", axis.extent)

    def placed(self, expr: Expr) -> Expr:
        """An expression of the inner stage at the points that the outer one reads."""
        reduction = {a.name: self.renamed(a).var if a.extent > 1 else const(0, i64) for a in self.inner.reduction}
        axes = (*self.outer.all_axes, *map(self.renamed, self.inner.reduction))
        bounds = {axis.name: (0, axis.extent - 1) for axis in axes}
        return simplify(substitute(expr, {**self.at, **reduction}), bounds)


def _nested(program: Program, outer: Stage) -> _Nested | None:
    if outer.combiner != "sum" or len(outer.tensors) != 1:
        return None
    match outer.bodies[0]:
        case Read() as read:
            guard: Expr | None = None
        case Op(name="select", args=(condition, Read() as read, Const(value=0))):
            guard = condition
        case _:
            return None
    inner = program.producers.get(read.tensor)
    if inner is None or inner.combiner != "sum" or len(inner.tensors) != 1 or inner.name in program.outputs:
        return None
    if len(program.consumers[inner.name]) != 1 or outer.tensors[0].dtype != inner.tensors[0].dtype:
        return None
    if inner.tensors[0].dtype not in (f32, f64):
        return None  # sums of narrow floats would be rounded between
    at = {axis.name: index for axis, index in zip(inner.axes, read.indices, strict=True)}
    return _Nested(outer, inner, read, guard, at)


def _exchanged(program: Program, nested: _Nested) -> tuple[Stage, ...] | None:
    """The sum of the factors that move, and the products with the others; None where that is not less work."""
    outer, inner = nested.outer, nested.inner
    moved = _moved(nested)
    parts = factors(inner.bodies[0])
    data = product(part for part in parts if variables(part) & moved)
    others = [nested.placed(part) for part in parts if not variables(part) & moved]
    if not others:
        return None
    depths = tuple(nested.renamed(a) for a in inner.reduction if a.extent > 1 and a.name in variables(data))
    data = nested.placed(data)
    if nested.guard is not None:
        data = Op("select", (nested.guard, data, const(0.0, data.dtype)), data.dtype)
    axes = _in_order(data, (*outer.axes, *depths))
    tensor = Tensor(free_name(program, f"{outer.name}_first"), data.dtype, shape_of(axes))
    first = Stage((tensor,), axes, (data,), outer.reduction, "sum", origin=outer.origin)
    body = product([result_of(first), *others])
    reduction = tuple(map(nested.renamed, [a for a in inner.reduction if a.extent > 1] or inner.reduction[:1]))
    origin = replace(inner.origin, also=(*inner.origin.also, outer.origin))
    last = replace(outer, bodies=(body,), reduction=reduction, origin=origin)
    before, after = (points_of(one) + points_of(other) for one, other in ((inner, outer), (first, last)))
    return (first, last) if before >= WORTH * after else None


def _moved(nested: _Nested) -> frozenset[str]:
    """Axes of the inner stage along which the outer sum runs."""
    summed = {axis.name for axis in nested.outer.reduction}
    return frozenset(name for name, index in nested.at.items() if variables(index) & summed)


def _in_order(data: Expr, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes that an expression depends on, in the order of the dimensions that it reads."""
    order = [name for read in reads(data) for index in read.indices for name in sorted(variables(index))]
    needed = [axis for axis in axes if axis.name in variables(data)]
    return tuple(sorted(needed, key=lambda axis: order.index(axis.name) if axis.name in order else len(order)))
