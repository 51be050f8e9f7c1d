"""Elements chosen by indices that are tensors. Indices are clamped to their axis, so that no read leaves a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...tensor import build
from ...tensor.build import compute, literal, minimum, reduce_axis, select
from ...tensor.dtype import accumulator, i64
from ...tensor.expr import Expr, const
from ...tensor.identity import identity
from ...tensor.ops.movement import clamped
from ...tensor.ops.sort import first_along
from ...tensor.ops.window import all_of
from ...tensor.program import Tensor
from ...tensor.stage_edits import identity_of
from .function import NotCovered, axis_of, function
from .operands import at, broadcast_shape
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
def put_along_axis(x: Tensor, index: Tensor, source: Tensor | float, axis: int, combine: str) -> Tensor:
    """x with x[..., index[..., k, ...], ...] replaced by source[..., k, ...] ("last" of several), or added to ("sum").

    Each place combines all k that meet it, whatever their number: two writes to one place are the same on each run.
    """
    if not x.shape:
        parts = [reshape(t, [1]) if isinstance(t, Tensor) else t for t in (x, index, source)]
        return reshape(put_along_axis(parts[0], parts[1], parts[2], 0, combine), [])  # type: ignore[arg-type]
    place = axis_of(axis, len(x.shape))
    over = reduce_axis(index.shape[place], "k")

    def hit(i: Sequence[Expr], value: Callable[[tuple[Expr, ...]], Expr], otherwise: Expr) -> Expr:
        at_index = (*i[:place], over, *i[place + 1 :])
        inside = [n < s for n, s, big in zip(at_index, index.shape, x.shape, strict=True) if n is not over and s < big]
        guarded = index[at_index].cast(i64).equal(i[place])
        found = select(guarded, value(at_index), otherwise)
        return select(all_of(inside), found, otherwise) if inside else found

    def value(at_index: tuple[Expr, ...]) -> Expr:
        return source[at_index].cast(x.dtype) if isinstance(source, Tensor) else const(source, x.dtype)

    if combine == "sum":
        zero = literal(0, accumulator(x.dtype))
        sums = compute(
            x.shape, lambda *i: build.sum(hit(i, lambda at: value(at).cast(zero.dtype), zero), over), name="sums"
        )
        return compute(x.shape, lambda *i: (x[i].cast(zero.dtype) + sums[i]).cast(x.dtype))
    nothing = identity("max", i64)
    last = compute(x.shape, lambda *i: build.max(hit(i, lambda _: over, nothing), over), name="last")

    def element(*i: Expr) -> Expr:
        at_index = tuple(
            clamped(last[i], s) if a == place else (minimum(n, s - 1) if s < big else n)
            for a, (n, s, big) in enumerate(zip(i, index.shape, x.shape, strict=True))
        )
        return select(last[i] >= 0, value(at_index), x[i])

    return compute(x.shape, element)


@function
def put_points(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    """x with x[indices] replaced by values, which broadcast (the last of several for one place), or added to."""
    places = [axis for axis, index in enumerate(indices) if index is not None]
    chosen = [index for index in indices if index is not None]
    if any(not index.dtype.is_integer for index in chosen):
        raise NotCovered("elements chosen by bool, whose number depends on data")
    points = broadcast_shape(*(index.shape for index in chosen))
    front = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
    over = [reduce_axis(size, f"k{number}") for number, size in enumerate(points)]
    rest = [axis for axis in range(len(x.shape)) if axis not in places]

    def hits(i: Sequence[Expr], at_points: Sequence[Expr]) -> Expr:
        return all_of([index_of(at(t, at_points), x.shape[a]).equal(i[a]) for a, t in zip(places, chosen, strict=True)])

    def value(i: Sequence[Expr], at_points: Sequence[Expr]) -> Expr:
        whole = [i[axis] for axis in rest]
        return at(values, (*whole[:front], *at_points, *whole[front:]))

    if accumulate:
        wide = accumulator(x.dtype)
        zero = literal(0, wide)
        sums = compute(
            x.shape, lambda *i: build.sum(select(hits(i, over), value(i, over).cast(wide), zero), over), name="sums"
        )
        return compute(x.shape, lambda *i: (x[i].cast(wide) + sums[i]).cast(x.dtype))
    count = prod(points)
    number: Expr = literal(0, i64)
    for axis in over:
        number = number * axis.extent + axis
    nothing = identity("max", i64)
    last = compute(x.shape, lambda *i: build.max(select(hits(i, over), number, nothing), over), name="last")

    def element(*i: Expr) -> Expr:
        flat, at_points = clamped(last[i], count), []
        step = count
        for size in points:
            step //= size
            at_points.append(clamped(flat // step % size, size))
        return select(last[i] >= 0, value(i, at_points), x[i])

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
def combined_along_axis(
    x: Tensor, index: Tensor, source: Tensor, axis: int, combine: str, include: bool
) -> Tensor:  # fmt: skip
    """x with each element combined with all source[..., k, ...] of which index[..., k, ...] is its place: "sum", "prod",
    "mean", "amax" or "amin". Without `include` these stand for the element, where there is one (scatter_reduce)."""
    if not x.shape:
        parts = [reshape(t, [1]) for t in (x, index, source)]
        return reshape(combined_along_axis(parts[0], parts[1], parts[2], 0, combine, include), [])
    place, inside = axis_of(axis, len(x.shape)), accumulator(x.dtype)
    over = reduce_axis(index.shape[place], "k")
    reduction = {"sum": build.sum, "mean": build.sum, "prod": build.prod, "amax": build.max, "amin": build.min}[combine]
    joins: dict[str, Callable[[Expr, Expr], Expr]] = {
        "amax": build.maximum, "amin": minimum, "prod": lambda a, b: a * b, "sum": lambda a, b: a + b,
    }  # fmt: skip
    join = joins.get(combine, joins["sum"])
    nothing = identity_of({"mean": "sum", "amax": "max", "amin": "min"}.get(combine, combine), literal(0, inside))

    def term(i: Sequence[Expr], value: Callable[[tuple[Expr, ...]], Expr], otherwise: Expr) -> Expr:
        at_index = (*i[:place], over, *i[place + 1 :])
        smaller = [n < s for n, s, big in zip(at_index, index.shape, x.shape, strict=True) if n is not over and s < big]
        found = select(index[at_index].cast(i64).equal(i[place]), value(at_index), otherwise)
        return select(all_of(smaller), found, otherwise) if smaller else found

    made = compute(
        x.shape, lambda *i: reduction(term(i, lambda at: source[at].cast(inside), nothing), over), name="found"
    )
    counts = compute(
        x.shape, lambda *i: build.sum(term(i, lambda _: literal(1, i64), literal(0, i64)), over), name="counts"
    )

    def element(*i: Expr) -> Expr:
        count = counts[i] + 1 if include else counts[i]
        total = join(x[i].cast(inside), made[i]) if include else made[i]
        if combine == "mean":
            divisor = build.maximum(count, 1).cast(inside)
            total = total / divisor if inside.is_float else total // divisor
        return (total if include else select(counts[i] > 0, total, x[i].cast(inside))).cast(x.dtype)

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
