"""Functions that only move elements: shapes, orders, parts, copies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from ...common.errors import ArgumentError
from ...tensor.build import compute, literal, maximum, minimum, select
from ...tensor.dtype import i64
from ...tensor.expr import Const, Expr
from ...tensor.indices.affine import simplify
from ...tensor.ops.movement import mirrored
from ...tensor.ops.window import all_of
from ...tensor.program import Tensor
from .function import axes_of, axis_of, function
from .operands import at, broadcast_shape


@function
def reshape(x: Tensor, to: Sequence[int]) -> Tensor:
    """The elements in the order of memory, in another shape; one size may be -1. x itself where it has the shape."""
    sizes = tuple(to)
    if -1 in sizes:
        known = -prod(sizes)
        sizes = tuple(prod(x.shape) // known if size == -1 else size for size in sizes)
    if prod(sizes) != prod(x.shape):
        raise ArgumentError("reshape keeps the number of elements", expected=f"{prod(x.shape)}", found=str(tuple(to)))
    if sizes == x.shape:
        return x
    return _reshaped(x, sizes)


def _reshaped(x: Tensor, to: tuple[int, ...]) -> Tensor:
    """One stage. Axes that stay are read at their own index, and only those that are joined or cut by quotients and rests."""
    groups = _groups(x.shape, to)
    bounds = {f"i{axis}": (0, size - 1) for axis, size in enumerate(to)}

    def element(*i: Expr) -> Expr:
        found: list[Expr | int] = [0] * len(x.shape)
        for own, new in groups:
            if len(own) == len(new) == 1:
                found[own[0]] = i[new[0]]
                continue
            place: Expr = Const(0, i64)
            for axis in new:
                place = place * to[axis] + i[axis]
            step = prod(x.shape[axis] for axis in own)
            for number, axis in enumerate(own):
                step //= x.shape[axis]
                quotient = place // step
                found[axis] = simplify(quotient % x.shape[axis] if number else quotient, bounds)
        return x[tuple(found)]

    return compute(to, element, axes=tuple(bounds))


def _groups(own: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes of a shape, and those of another that have the same elements between them, as few as possible together; axes of the
    size 1 are in no group."""
    left = [axis for axis, size in enumerate(own) if size > 1]
    right = [axis for axis, size in enumerate(new) if size > 1]
    found: list[tuple[list[int], list[int]]] = []
    while left:
        group = [left.pop(0)], [right.pop(0)]
        sizes = [own[group[0][0]], new[group[1][0]]]
        while sizes[0] != sizes[1]:
            side = 0 if sizes[0] < sizes[1] else 1
            axis = (left, right)[side].pop(0)
            group[side].append(axis)
            sizes[side] *= (own, new)[side][axis]
        found.append(group)
    return found


def squeeze(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """x without axes of the size 1: all, or those given that have it."""
    chosen = axes_of(axes if axes is None or isinstance(axes, int) else tuple(axes), len(x.shape))
    if axes is not None and not isinstance(axes, int) and not axes:
        chosen = ()
    return reshape(x, [size for axis, size in enumerate(x.shape) if axis not in chosen or size != 1])


def unsqueeze(x: Tensor, axes: int | Sequence[int]) -> Tensor:
    """x with new axes of the size 1, which have these numbers in the result."""
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    rank = len(x.shape) + len(given)
    new = {axis_of(axis, rank) for axis in given}
    rest = iter(x.shape)
    return reshape(x, [1 if axis in new else next(rest) for axis in range(rank)])


@function
def permute(x: Tensor, order: Sequence[int]) -> Tensor:
    """The result's axis number d is x's axis order[d]."""
    places = [axis_of(axis, len(x.shape)) for axis in order]
    if sorted(places) != list(range(len(x.shape))):
        raise ArgumentError("the order is no permutation", expected=f"{len(x.shape)} axes", found=str(list(order)))
    if places == sorted(places):
        return x
    return compute(
        tuple(x.shape[axis] for axis in places), lambda *i: x[tuple(i[places.index(axis)] for axis in range(len(i)))]
    )


def transpose(x: Tensor, first: int, second: int) -> Tensor:
    """x with two axes exchanged."""
    order = list(range(len(x.shape)))
    if not order:
        return x
    a, b = axis_of(first, len(order)), axis_of(second, len(order))
    order[a], order[b] = order[b], order[a]
    return permute(x, order)


@function
def expand(x: Tensor, to: Sequence[int]) -> Tensor:
    """x repeated along axes of the size 1, and along new axes in front; -1 is the size that x has."""
    new = len(to) - len(x.shape)
    sizes = tuple(x.shape[axis - new] if size == -1 else size for axis, size in enumerate(to))
    if new < 0 or broadcast_shape(x.shape, sizes) != sizes:
        raise ArgumentError("a tensor expands along axes of the size 1", found=f"{x.shape} to {tuple(to)}")
    return x if sizes == x.shape else compute(sizes, lambda *i: at(x, i))


@function
def cut(x: Tensor, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> Tensor:
    """x from `starts` on, `counts` elements that lie `steps` apart along each axis; steps may be negative."""
    for start, count, step, size in zip(starts, counts, steps, x.shape, strict=True):
        if count < 1 or not (0 <= start < size and 0 <= start + (count - 1) * step < size):
            raise ArgumentError("a slice lies outside, or is empty", found=f"{start}, {count} times {step}, of {size}")
    if (
        tuple(counts) == x.shape
        and not any(starts)
        and all(s == 1 or c == 1 for s, c in zip(steps, counts, strict=True))
    ):
        return x

    def element(*i: Expr) -> Expr:
        return x[tuple(simplify(n * step + start) for n, start, step in zip(i, starts, steps, strict=True))]

    return compute(tuple(counts), element)


def slice_axis(x: Tensor, axis: int, start: int | None = None, stop: int | None = None, step: int = 1) -> Tensor:
    """x[start:stop:step] along an axis, as Python's slices are."""
    place = axis_of(axis, len(x.shape))
    found = range(x.shape[place])[slice(start, stop, step)]
    starts, counts, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    if not found:
        raise ArgumentError("a slice is empty", found=f"{start}:{stop}:{step} of {x.shape[place]}")
    starts[place], counts[place], steps[place] = found.start, len(found), found.step
    return cut(x, starts, counts, steps)


def select_axis(x: Tensor, axis: int, index: int) -> Tensor:
    """x at one index of an axis, which is dropped."""
    return _selected(x, axis_of(axis, len(x.shape)), index)


@function
def _selected(x: Tensor, axis: int, index: int) -> Tensor:
    size = x.shape[axis]
    if not -size <= index < size:
        raise ArgumentError("an index lies outside", expected=f"{-size} .. {size - 1}", found=str(index))
    return compute((*x.shape[:axis], *x.shape[axis + 1 :]), lambda *i: x[(*i[:axis], index % size, *i[axis:])])


def split(x: Tensor, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """x cut along an axis into parts of these sizes, or of one size, the last one with the rest."""
    place = axis_of(axis, len(x.shape))
    whole = x.shape[place]
    lengths = [min(sizes, whole - start) for start in range(0, whole, sizes)] if isinstance(sizes, int) else list(sizes)
    if sum(lengths) != whole:
        raise ArgumentError("the parts are not the whole", expected=str(whole), found=str(lengths))
    ends = [sum(lengths[: number + 1]) for number in range(len(lengths))]
    return tuple(slice_axis(x, place, end - length, end) for end, length in zip(ends, lengths, strict=True))


def chunk(x: Tensor, parts: int, axis: int = 0) -> tuple[Tensor, ...]:
    """x cut along an axis into at most so many equal parts, the last one perhaps smaller."""
    return split(x, -(-x.shape[axis_of(axis, len(x.shape))] // parts), axis)


@function
def concat(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """One part behind the other along an axis. Errors: ArgumentError for shapes that differ in other axes."""
    place = axis_of(axis, len(parts[0].shape))
    if len({(*part.shape[:place], *part.shape[place + 1 :]) for part in parts}) > 1:
        raise ArgumentError("parts differ in more than the axis", found=" ".join(str(part.shape) for part in parts))
    if len({part.dtype for part in parts}) > 1:
        raise ArgumentError("parts differ in dtype", found=" ".join(str(part.dtype) for part in parts))
    return parts[0] if len(parts) == 1 else _joined(parts, place)


def _joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    ends = list(accumulate(part.shape[axis] for part in parts))
    shape = (*parts[0].shape[:axis], ends[-1], *parts[0].shape[axis + 1 :])

    def element(*i: Expr) -> Expr:
        values = [
            part[(*i[:axis], simplify(i[axis] - end + part.shape[axis]), *i[axis + 1 :])]
            for part, end in zip(parts, ends, strict=True)
        ]
        return _chosen(i[axis], ends, values)

    return compute(shape, element)


def _chosen(index: Expr, ends: Sequence[int], values: Sequence[Expr]) -> Expr:
    """The value before whose end, and not before an earlier one, an index lies: by few comparisons, however many there are."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    first, second = _chosen(index, ends[:half], values[:half]), _chosen(index, ends[half:], values[half:])
    return select(index < ends[half - 1], first, second)


def stack(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The parts along a new axis."""
    place = axis_of(axis, len(parts[0].shape) + 1)
    return _stacked(parts, place)


@function
def _stacked(parts: Sequence[Tensor], place: int) -> Tensor:
    if len({(part.shape, part.dtype) for part in parts}) > 1:
        raise ArgumentError("parts differ", expected="one shape", found=" ".join(str(part.shape) for part in parts))
    shape = parts[0].shape

    def element(*i: Expr) -> Expr:
        rest = (*i[:place], *i[place + 1 :])
        return _chosen(i[place], range(1, len(parts) + 1), [part[rest] for part in parts])

    return compute((*shape[:place], len(parts), *shape[place:]), element)


@function
def pad(
    x: Tensor, before: Sequence[int], after: Sequence[int], mode: str = "constant", value: float = 0.0
) -> Tensor:  # fmt: skip
    """x with elements in front of and behind each axis; negative numbers cut off.

    mode: "constant" for `value`, "edge" for the nearest element, "reflect" for x mirrored at its edge elements, "wrap" for x
    from its other end.
    """
    sizes = tuple(size + a + b for size, a, b in zip(x.shape, before, after, strict=True))
    if not any((*before, *after)):
        return x

    def element(*i: Expr) -> Expr:
        places = [simplify(index - front) for index, front in zip(i, before, strict=True)]
        moved = [bool(a > 0 or b > 0) for a, b in zip(before, after, strict=True)]
        if mode != "constant":
            return x[tuple(_outside(mode, p, s) if m else p for p, s, m in zip(places, x.shape, moved, strict=True))]
        guards = []
        for axis, place in enumerate(places):
            guards += [place >= 0] * (before[axis] > 0) + [place < x.shape[axis]] * (after[axis] > 0)
        found: Expr = x[tuple(places)]
        return select(all_of(guards), found, literal(value, x.dtype)) if guards else found

    return compute(sizes, element)


def _outside(mode: str, place: Expr, size: int) -> Expr:
    if mode == "edge":
        return minimum(maximum(place, 0), size - 1)
    return mirrored(place, size) if mode == "reflect" else simplify(place % size)


@function
def flip(x: Tensor, axes: Sequence[int]) -> Tensor:
    """x from its end along the axes."""
    turned = axes_of(tuple(axes), len(x.shape)) if axes else ()

    def element(*i: Expr) -> Expr:
        return x[tuple(simplify(x.shape[a] - 1 - n) if a in turned else n for a, n in enumerate(i))]

    return compute(x.shape, element) if turned else x


@function
def roll(x: Tensor, shifts: Sequence[int], axes: Sequence[int]) -> Tensor:
    """x moved by shifts along axes; what leaves at the end comes in at the front. Without axes, as one row."""
    if not axes:
        return reshape(roll(reshape(x, [-1]), shifts, [0]), x.shape)
    by = [0] * len(x.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        by[axis_of(axis, len(x.shape))] += shift

    def element(*i: Expr) -> Expr:
        return x[tuple(simplify((n - b) % s) if b % s else n for n, b, s in zip(i, by, x.shape, strict=True))]

    return compute(x.shape, element)


@function
def tile(x: Tensor, times: Sequence[int]) -> Tensor:
    """x laid beside itself along each axis; axes in front are new."""
    new = len(times) - len(x.shape)
    counts = (*((1,) * -new if new < 0 else ()), *times)
    own = counts[max(new, 0) :]
    sizes = (*counts[: max(new, 0)], *(size * count for size, count in zip(x.shape, own, strict=True)))

    def element(*i: Expr) -> Expr:
        kept = i[max(new, 0) :]
        return x[tuple(n % s if count > 1 else n for n, s, count in zip(kept, x.shape, own, strict=True))]

    return x if sizes == x.shape else compute(sizes, element)


@function
def repeat_each(x: Tensor, times: int, axis: int) -> Tensor:
    """Each element `times` along an axis."""
    place = axis_of(axis, len(x.shape))
    sizes = (*x.shape[:place], x.shape[place] * times, *x.shape[place + 1 :])
    return compute(sizes, lambda *i: x[(*i[:place], simplify(i[place] // times), *i[place + 1 :])])


@function
def diagonal(x: Tensor, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    """The diagonal of two axes, which becomes the last axis."""
    a, b = axis_of(first, len(x.shape)), axis_of(second, len(x.shape))
    count = min(x.shape[a] + min(offset, 0), x.shape[b] - max(offset, 0))
    if count < 1:
        raise ArgumentError("the diagonal is empty", found=f"offset {offset} of {x.shape}")
    rest = [axis for axis in range(len(x.shape)) if axis not in (a, b)]

    def element(*i: Expr) -> Expr:
        place = dict(zip(rest, i, strict=False)) | {a: i[-1] - min(offset, 0), b: i[-1] + max(offset, 0)}
        return x[tuple(simplify(place[axis]) for axis in range(len(x.shape)))]

    return compute((*(x.shape[axis] for axis in rest), count), element)


def depth_to_space(x: Tensor, block: int, columns_first: bool = False) -> Tensor:
    """Blocks of channels [(c, r, s)], or [(r, s, c)] with `columns_first`, laid out in rows and columns (pixel shuffle)."""
    n, c, h, w = x.shape
    own = c // block**2
    if columns_first:
        cube = permute(reshape(x, [n, block, block, own, h, w]), [0, 3, 4, 1, 5, 2])
    else:
        cube = permute(reshape(x, [n, own, block, block, h, w]), [0, 1, 4, 2, 5, 3])
    return reshape(cube, [n, own, h * block, w * block])


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """The inverse of depth_to_space, with channels [(c, r, s)] (pixel unshuffle)."""
    n, c, h, w = x.shape
    cube = reshape(x, [n, c, h // block, block, w // block, block])
    return reshape(permute(cube, [0, 1, 3, 5, 2, 4]), [n, c * block**2, h // block, w // block])
