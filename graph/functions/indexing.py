"""Elements chosen by indices that are tensors. Indices are clamped to their axis, so that no read leaves a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ...tensor import build
from ...tensor.build import compute, literal, reduce_axis, select
from ...tensor.dtype import i64
from ...tensor.expr import Expr
from ...tensor.ops.movement import clamped
from ...tensor.ops.sort import first_along
from ...tensor.program import Tensor
from .function import NotCovered, axis_of, function
from .operands import at, broadcast_shape, promoted
from .reductions import scan
from .shape import expand, reshape


def index_of(chosen: Expr, size: int, negative: bool = True) -> Expr:
    """An index that was read, inside of an axis; a negative one counts from the end, if such ones may occur."""
    index = chosen.cast(i64)
    if negative and chosen.dtype.kind.value == "signed":
        index = select(index < 0, index + size, index)
    return clamped(index, size)


@function
def take(x: Tensor, index: Tensor, axis: int = 0, negative: bool = True) -> Tensor:
    """x[..., index, ...]: the axes of the index stand in the place of the axis (embedding, index_select, ONNX's Gather)."""
    place, width = axis_of(axis, len(x.shape)), len(index.shape)
    shape = (*x.shape[:place], *index.shape, *x.shape[place + 1 :])

    def element(*i: Expr) -> Expr:
        chosen = index[i[place : place + width]]
        return x[(*i[:place], index_of(chosen, x.shape[place], negative), *i[place + width :])]

    return compute(shape, element)


def embedding(index: Tensor, weights: Tensor) -> Tensor:
    """weights[index, ...] for indices >= 0."""
    return take(weights, index, 0, negative=False)


@function
def take_along_axis(x: Tensor, index: Tensor, axis: int, negative: bool = True) -> Tensor:
    """x[..., index[..., k, ...], ...]: an index for each element (torch's gather, ONNX's GatherElements)."""
    place = axis_of(axis, len(x.shape))
    if not x.shape:
        return compute((), lambda: x[()])

    def element(*i: Expr) -> Expr:
        return x[(*i[:place], index_of(index[i], x.shape[place], negative), *i[place + 1 :])]

    return compute(index.shape, element)


@function
def take_points(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x[indices] as in torch and NumPy: None is a whole axis; tensors broadcast, and their axes stand where the first one
    stood, or in front if there is a whole axis between them. Indices are integers."""
    places = [axis for axis, index in enumerate(indices) if index is not None]
    chosen = [index for index in indices if index is not None]
    if any(not index.dtype.is_integer for index in chosen):
        raise NotCovered("a choice of elements by bool, whose number depends on data")
    points = broadcast_shape(*(index.shape for index in chosen))
    adjacent = places == list(range(places[0], places[-1] + 1))
    front = places[0] if adjacent else 0
    rest = [axis for axis in range(len(x.shape)) if axis not in places]
    sizes = [x.shape[axis] for axis in rest]
    shape = (*sizes[:front], *points, *sizes[front:])

    def element(*i: Expr) -> Expr:
        at_points = i[front : front + len(points)]
        whole = dict(zip(rest, (*i[:front], *i[front + len(points) :]), strict=True))
        found = {
            axis: index_of(at(index, at_points), x.shape[axis]) for axis, index in zip(places, chosen, strict=True)
        }
        return x[tuple({**whole, **found}[axis] for axis in range(len(x.shape)))]

    return compute(shape, element)


@function
def replaced(x: Tensor, part: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """x with x[start:stop:step] along an axis replaced by a part (slice_scatter, select_scatter, writes to a slice)."""
    place = axis_of(axis, len(x.shape))
    found = range(x.shape[place])[slice(start, stop, step)]
    if not found:
        return x
    first, count, by = found.start, len(found), found.step

    def element(*i: Expr) -> Expr:
        away = i[place] - first
        inside = (i[place] >= first) & (i[place] <= found[-1])
        if by > 1:
            inside = inside & (away % by).equal(0)
        at_part = away if by == 1 else away // by
        own = (*i[:place], clamped(at_part, count), *i[place + 1 :])
        return select(inside, at(part, own), x[i])

    return compute(x.shape, element)


@function
def sorted_along(x: Tensor, axis: int, descending: bool = False, count: int | None = None) -> tuple[Tensor, Tensor]:
    """The elements along an axis in order, or the first `count` of them, and where they were: equal ones in the order in which
    they stood, NaN as the greatest."""
    if not x.shape:
        return compute((), lambda: x[()]), compute((), lambda: literal(0, i64))
    place = axis_of(axis, len(x.shape))
    return first_along(x, place, descending, x.shape[place] if count is None else count)


@function
def places_among(ordered: Tensor, x: Tensor, right: bool) -> Tensor:
    """Counts the elements of a sorted sequence that are less than each of x, or not greater (`right`): where it would stand.
    The sequence is the last axis of `ordered`; its other axes, if there are any, are those of x. NaN stands last."""
    dtype = promoted(ordered, x)
    over = reduce_axis(ordered.shape[-1], "k")

    def element(*i: Expr) -> build.Reduction:
        own = ordered[(*i[: len(ordered.shape) - 1], over)].cast(dtype)
        value = x[i].cast(dtype)
        return build.sum(select(own > value if right else own >= value, literal(0, i64), literal(1, i64)), over)

    return compute(x.shape, element)


@function
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """x with the elements at which the mask holds replaced by those of the source, one after the other."""
    shape = broadcast_shape(x.shape, mask.shape)
    flat, wide = reshape(source, [-1]), reshape(expand(mask, shape), [-1])
    before = reshape(scan(wide, 0), shape)

    def element(*i: Expr) -> Expr:
        return select(at(mask, i), flat[clamped(before[i] - 1, flat.shape[0])].cast(x.dtype), at(x, i))

    return compute(shape, element)
