"""ONNX's functions that only move elements, and those that say shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....common.errors import ArgumentError
from ....tensor.program import Tensor
from ...functions import shape
from ...functions.function import axis_of
from ..onnx_file import zeros
from .registry import Array, Node, OnnxValue, onnx


@onnx("Shape")
def shape_of(node: Node) -> Array:
    """The sizes from one axis to another"""
    whole = list(node.shape(0))
    return np.array(whole[slice(node.integer("start"), node.attributes.get("end"))], np.int64)


@onnx("Size")
def size(node: Node) -> Array:
    """The number of elements"""
    return np.array(prod(node.shape(0)), np.int64)


@onnx("Reshape")
def reshape(node: Node) -> Tensor:
    """x in another shape; 0 keeps a size, -1 is what remains."""
    x, wanted = node.tensor(0), node.numbers(1) or []
    if 0 in wanted and not node.integer("allowzero"):
        wanted = [x.shape[axis] if n == 0 else n for axis, n in enumerate(wanted)]
    return shape.reshape(x, wanted)


@onnx("Flatten")
def flatten(node: Node) -> Tensor:
    """The axes before one as rows, the others as columns"""
    x, axis = node.tensor(0), node.integer("axis", 1)
    axis += len(x.shape) if axis < 0 else 0
    return shape.reshape(x, [prod(x.shape[:axis]), prod(x.shape[axis:])])


@onnx("Squeeze")
def squeeze(node: Node) -> Tensor:
    """x without axes of the size 1"""
    axes = node.numbers(1)
    if axes and any(node.shape(0)[axis] != 1 for axis in axes):
        raise ArgumentError("an axis that is dropped has another size than 1", found=f"{axes} of {node.shape(0)}")
    return shape.squeeze(node.tensor(0), axes)


@onnx("Unsqueeze")
def unsqueeze(node: Node) -> Tensor:
    """x with axes of the size 1"""
    return shape.unsqueeze(node.tensor(0), node.numbers(1) or [])


@onnx("Transpose")
def transpose(node: Node) -> Tensor:
    """Axes in another order, turned around unless given"""
    x = node.tensor(0)
    return shape.permute(x, node.ints("perm") or list(range(len(x.shape)))[::-1])


@onnx("Expand")
def expand(node: Node) -> Tensor:
    """x repeated as broadcasting to a shape says"""
    from ...functions.operands import broadcast_shape

    x = node.tensor(0)
    return shape.expand(x, broadcast_shape(x.shape, node.numbers(1) or []))


@onnx("Concat")
def concat(node: Node) -> Tensor:
    """One behind the other along an axis; what has no elements is left out."""
    parts = [place for place in range(len(node.inputs)) if 0 not in node.shape(place)]
    return shape.concat([node.tensor(place) for place in parts], node.integer("axis"))


@onnx("Split")
def split(node: Node) -> tuple[OnnxValue, ...]:
    """Parts along an axis: of given sizes, or so many, the last one perhaps smaller"""
    x, axis, sizes = node.tensor(0), node.axis(), node.numbers(1)
    if sizes is None:
        count = node.integer("num_outputs", len(node.outputs))
        each = -(-x.shape[axis] // count)
        sizes = [min(each, x.shape[axis] - start) for start in range(0, x.shape[axis], each)]
        sizes += [0] * (count - len(sizes))
    parts = iter(shape.split(x, [size for size in sizes if size], axis))
    return tuple(next(parts) if n else zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :]), x.dtype) for n in sizes)


@onnx("Slice")
def cut(node: Node) -> OnnxValue:
    """x[starts:ends:steps] along axes"""
    x = node.tensor(0)
    starts, ends = node.numbers(1) or [], node.numbers(2) or []
    axes = node.numbers(3) if node.has(3) else list(range(len(starts)))
    steps = node.numbers(4) or [1] * len(starts)
    first, counts, by = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    for axis, start, end, step in zip(axes or [], starts, ends, steps, strict=True):
        place = axis_of(axis, len(x.shape))
        found = _range(x.shape[place], start, end, step)
        first[place], counts[place], by[place] = found.start, len(found), step
    return shape.cut(x, first, counts, by) if all(counts) else zeros(counts, x.dtype)


def _range(size: int, start: int, end: int, step: int) -> range:
    """Works as NumPy's; an end far below is before the first element, also where it is counted from the end."""
    return range(size)[slice(start, None if step < 0 and end < -size else end, step)]


@onnx("Pad")
def pad(node: Node) -> Tensor:
    """x with elements in front of and behind axes"""
    x, mode = node.tensor(0), node.text("mode", "constant")
    before, behind = padding(node.numbers(1) or [], node.numbers(3), len(x.shape))
    value = node.number(2, 0)
    if not x.dtype.is_float:
        value = int(value)
    return shape.pad(x, before, behind, mode, value)


def padding(pads: Sequence[int], axes: Sequence[int] | None, rank: int) -> tuple[list[int], list[int]]:
    """(in front of, behind) each axis, of a list that has all in front first."""
    places = list(range(rank)) if axes is None else [axis_of(axis, rank) for axis in axes]
    before, behind = [0] * rank, [0] * rank
    for number, place in enumerate(places):
        before[place], behind[place] = pads[number], pads[number + len(places)]
    return before, behind


@onnx("Tile")
def tile(node: Node) -> Tensor:
    """x laid beside itself"""
    return shape.tile(node.tensor(0), node.numbers(1) or [])


@onnx("DepthToSpace")
def depth_to_space(node: Node) -> Tensor:
    """Blocks of channels as rows and columns"""
    crossed = node.text("mode", "DCR") == "DCR"
    return shape.depth_to_space(node.tensor(0), node.integer("blocksize"), columns_first=crossed)


@onnx("SpaceToDepth")
def space_to_depth(node: Node) -> Tensor:
    """Blocks of rows and columns as channels, the blocks outside, or inside with CRD"""
    x, block = node.tensor(0), node.integer("blocksize")
    if node.text("mode", "DCR") == "CRD":
        return shape.space_to_depth(x, block)
    n, c, h, w = x.shape
    cube = shape.reshape(x, [n, c, h // block, block, w // block, block])
    return shape.reshape(shape.permute(cube, [0, 3, 5, 1, 2, 4]), [n, c * block**2, h // block, w // block])


@onnx("ReverseSequence")
def reverse_sequence(node: Node) -> Tensor:
    """The first elements of each row along an axis turned around, as many as a length says"""
    from ....tensor.build import compute, select
    from ....tensor.dtype import i64
    from ....tensor.expr import Expr
    from ....tensor.ops.movement import clamped

    x, lengths = node.tensor(0), node.tensor(1)
    time, batch = axis_of(node.integer("time_axis"), len(x.shape)), axis_of(node.integer("batch_axis", 1), len(x.shape))

    def element(*i: Expr) -> Expr:
        length = lengths[i[batch]].cast(i64)
        place = select(i[time] < length, length - 1 - i[time], i[time])
        return x[tuple(clamped(place, x.shape[time]) if axis == time else n for axis, n in enumerate(i))]

    return compute(x.shape, element)


@onnx("Einsum")
def einsum(node: Node) -> Tensor:
    """A sum of products"""
    from ...functions.linear import einsum as summed

    return summed(node.text("equation"), node.tensors())


@onnx("Trilu")
def triangle(node: Node) -> Tensor:
    """x above or below a diagonal, else 0"""
    from ...functions.creation import triangle as kept

    return kept(node.tensor(0), bool(node.integer("upper", 1)), int(node.number(1, 0)))
