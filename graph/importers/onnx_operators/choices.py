"""ONNX's functions that choose elements by indices, or in order."""

from __future__ import annotations

import numpy as np

from ....tensor.program import Tensor
from ...functions import indexing, reductions, shape
from ...functions.elementwise import cast
from ...functions.function import NotCovered, axis_of
from .registry import Node, onnx


@onnx("Gather")
def gather(node: Node) -> Tensor:
    """x[..., index, ...]; one known index is a part of x."""
    x, index, axis = node.tensor(0), node.given(1), node.axis()
    if isinstance(index, np.ndarray) and index.shape == ():
        return shape.select_axis(x, axis, int(index))
    if isinstance(index, np.ndarray) and index.shape == (1,):
        place = int(index[0]) % x.shape[axis]
        return shape.slice_axis(x, axis, place, place + 1)
    return indexing.take(x, node.tensor(1), axis)


@onnx("GatherElements")
def gather_elements(node: Node) -> Tensor:
    """x[..., index[..., k, ...], ...]"""
    from ....tensor.build import compute
    from ....tensor.expr import Expr

    x, index, axis = node.tensor(0), node.tensor(1), node.axis()

    def element(*i: Expr) -> Expr:
        return x[(*i[:axis], indexing.index_of(index[i], x.shape[axis]), *i[axis + 1 :])]

    return compute(index.shape, element)


@onnx("GatherND")
def gather_nd(node: Node) -> Tensor:
    """x at points: the last axis of the indices has a number for each of the first axes of x behind those of the batch."""
    from ....tensor.build import compute
    from ....tensor.expr import Expr

    x, index, batch = node.tensor(0), node.tensor(1), node.integer("batch_dims")
    count, outer = index.shape[-1], len(index.shape) - 1

    def element(*i: Expr) -> Expr:
        places = [indexing.index_of(index[(*i[:outer], n)], x.shape[batch + n]) for n in range(count)]
        return x[(*i[:batch], *places, *i[outer:])]

    return compute((*index.shape[:-1], *x.shape[batch + count :]), element)


@onnx("TopK")
def top_k(node: Node) -> tuple[Tensor, Tensor]:
    """The greatest or the least along an axis, and where they were"""
    axis, count = node.axis(-1), int(node.number(1, 1))
    return indexing.sorted_along(node.tensor(0), axis, bool(node.integer("largest", 1)), count)


@onnx("ArgMax")
def arg_max(node: Node) -> Tensor:
    """Where the greatest along an axis is"""
    return _extreme(node, True)


@onnx("ArgMin")
def arg_min(node: Node) -> Tensor:
    """Where the least along an axis is"""
    return _extreme(node, False)


def _extreme(node: Node, greatest: bool) -> Tensor:
    x, axis, keep = node.tensor(0), node.axis(), bool(node.integer("keepdims", 1))
    if not node.integer("select_last_index"):
        return reductions.extreme_index(x, axis, keep, greatest)
    from ...functions.elementwise import subtract

    found = reductions.extreme_index(shape.flip(x, [axis]), axis, keep, greatest)
    return subtract(x.shape[axis] - 1, found)


@onnx("Compress")
def compress(node: Node) -> Tensor:
    """The places along an axis, or of all, where a known condition holds"""
    chosen = np.flatnonzero(node.known(1))
    x = node.tensor(0)
    if not chosen.size:
        raise NotCovered("a tensor without elements")
    index = node.constant(chosen.astype(np.int64))
    if "axis" not in node.attributes:
        return indexing.take(shape.reshape(x, [-1]), index, 0)
    return indexing.take(x, index, node.axis())


@onnx("NonZero", "Unique", "NonMaxSuppression")
def data_dependent(node: Node) -> Tensor:
    """As many elements as data say"""
    raise NotCovered(f"a shape that depends on the data of {node.names[0]}")


@onnx("CumSum")
def cumulative_sum(node: Node) -> Tensor:
    """Sums of all elements up to each place"""
    return _scan(node, "sum", 0)


@onnx("CumProd")
def cumulative_product(node: Node) -> Tensor:
    """Products of all elements up to each place"""
    return _scan(node, "prod", 1)


def _scan(node: Node, combiner: str, first: int) -> Tensor:
    x, backward = node.tensor(0), bool(node.integer("reverse"))
    axis = axis_of(int(node.number(1, 0)), len(x.shape))
    made = cast(reductions.scan(x, axis, combiner, x.dtype, backward), x.dtype)
    if not node.integer("exclusive"):
        return made
    before, behind = [0] * len(x.shape), [0] * len(x.shape)
    before[axis], behind[axis] = (-1, 1) if backward else (1, -1)
    return shape.pad(made, before, behind, "constant", first)
