"""ONNX's functions that write to elements chosen by indices."""

from __future__ import annotations

from ....tensor.program import Tensor
from ...functions.scatter import LAST, put_along_axis, put_rows
from .registry import Node, onnx

_COMBINED = {"none": LAST, "add": "sum", "mul": "prod", "max": "max", "min": "min"}


@onnx("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Tensor:
    """x with x[..., index[..., k, ...], ...] replaced, or combined with updates"""
    x, index, updates, how = node.tensor(0), node.tensor(1), node.tensor(2), node.text("reduction", "none")
    return put_along_axis(x, index, updates, node.axis(), _COMBINED[how], negative=True)


@onnx("ScatterND")
def scatter_nd(node: Node) -> Tensor:
    """x at points replaced, or combined with updates"""
    x, index, updates, how = node.tensor(0), node.tensor(1), node.tensor(2), node.text("reduction", "none")
    return put_rows(x, index, updates, _COMBINED[how])


@onnx("TensorScatter")
def tensor_scatter(node: Node) -> Tensor:
    """A cache with the updates written from an index on, for each row of the batch; around its end if it is circular."""
    from ....tensor.build import compute, literal, select
    from ....tensor.dtype import i64
    from ....tensor.expr import Expr
    from ....tensor.ops.movement import clamped
    from ...functions.function import axis_of

    past, update, first = node.tensor(0), node.tensor(1), node.maybe(2)
    axis, circular = axis_of(node.integer("axis", -2), len(past.shape)), node.text("mode", "linear") == "circular"
    size, count = past.shape[axis], update.shape[axis]

    def element(*i: Expr) -> Expr:
        start = literal(0, i64) if first is None else first[i[0]].cast(i64)
        away = (i[axis] - start) % size if circular else i[axis] - start
        own = tuple(clamped(away, count) if a == axis else n for a, n in enumerate(i))
        return select((away >= 0) & (away < count), update[own], past[i])

    return compute(past.shape, element)
