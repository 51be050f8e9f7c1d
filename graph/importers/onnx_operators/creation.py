"""ONNX's tensors that are made of nothing but their places. Where they are small, they are known and never come here."""

from __future__ import annotations

from math import ceil

import numpy as np

from ....tensor.dtype import f32
from ....tensor.program import Tensor
from ...functions import creation
from ...functions.function import NotCovered, axis_of
from .registry import Node, onnx


@onnx("ConstantOfShape")
def constant_of_shape(node: Node) -> Tensor:
    """One number everywhere"""
    value = node.attributes.get("value", np.zeros(1, np.float32))
    dtype = node.element(value.dtype.name)
    if dtype is None:
        raise NotCovered(f"the dtype {value.dtype}")
    return creation.full(node.numbers(0) or [], value.reshape(-1)[0].item(), dtype)


@onnx("Range")
def arange(node: Node) -> Tensor:
    """start, start + step, ... before the limit"""
    start, limit, step = (node.known(place).reshape(-1)[0] for place in range(3))
    dtype = node.element(start.dtype.name)
    count = ceil((limit.item() - start.item()) / step.item())
    if dtype is None or count < 1:
        raise NotCovered(f"the dtype {start.dtype}" if dtype is None else "a tensor without elements")
    return creation.arange(count, start.item(), step.item(), dtype)


@onnx("EyeLike")
def eye_like(node: Node) -> Tensor:
    """1 on a diagonal, else 0"""
    from ....tensor.build import compute, literal, select

    rows, columns = node.shape(0)
    given = node.given(0)
    own = given.dtype if isinstance(given, Tensor) else f32
    dtype, k = node.dtype("dtype", own), node.integer("k")
    one, zero = literal(1, dtype), literal(0, dtype)
    return compute((rows, columns), lambda i, j: select((i + k).equal(j), one, zero))


@onnx("OneHot")
def one_hot(node: Node) -> Tensor:
    """One value where the place along a new axis is the index, else another"""
    from ....tensor.build import compute, select
    from ....tensor.dtype import i64
    from ....tensor.expr import Expr

    index, values, classes = node.tensor(0), node.tensor(2), int(node.number(1, 0))
    place = axis_of(node.integer("axis", -1), len(index.shape) + 1)

    def element(*i: Expr) -> Expr:
        chosen = index[(*i[:place], *i[place + 1 :])].cast(i64)
        hit = chosen.equal(i[place]) | (chosen + classes).equal(i[place])
        return select(hit, values[1], values[0])

    return compute((*index.shape[:place], classes, *index.shape[place:]), element)
