"""Operators that only move elements: shapes, orders, parts, copies, and elements chosen by indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...common.errors import ArgumentError
from ..build import compute, literal, maximum, minimum, select
from ..dtype import i64
from ..expr import Const, Expr
from ..indices.affine import simplify
from ..limits import PARTS
from ..program import Program, Tensor
from .arguments import Index, Integers, Offsets, Shape, Shapes, Size, Sizes, axis_of, choose, few, per_dimension
from .operator import Operands, operator
from .window import all_of


@operator
def transpose(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[columns, rows] = x[rows, columns]"""
    operand = Operands(dtype, constants)
    x = operand("x", rows, columns)
    return operand.program(compute((columns, rows), lambda j, i: x[i, j], name="out"))


@operator
def permute(shape: Shape, order: Integers, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out's axis number d is x's axis order[d]. Errors: ArgumentError for an order that is no permutation."""
    operand = Operands(dtype, constants)
    x = operand("x", *shape)
    if sorted(order) != list(range(len(shape))):
        found = "x".join(map(str, order))
        raise ArgumentError(
            "order of permute is no permutation", expected=f"0 .. {len(shape) - 1}, each once", found=found
        )

    def element(*i: Expr) -> Expr:
        return x[tuple(i[order.index(axis)] for axis in range(len(shape)))]

    return operand.program(compute(tuple(shape[axis] for axis in order), element, name="out"))


@operator
def reshape(shape: Shape, to: Shape, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[...] = the element of x at the same place in memory. Errors: ArgumentError for another number of elements."""
    operand = Operands(dtype, constants)
    x = operand("x", *shape)
    if prod(shape) != prod(to):
        raise ArgumentError("reshape keeps the number of elements", expected=str(prod(shape)), found=str(prod(to)))
    return operand.program(reshaped(x, to))


def reshaped(x: Tensor, to: Sequence[int]) -> Tensor:
    """The elements of x in the order of memory, in another shape of as many."""
    shape = x.shape
    bounds = {f"i{axis}": (0, size - 1) for axis, size in enumerate(to)}

    def element(*i: Expr) -> Expr:
        place: Expr = Const(0, i64)
        for index, size in zip(i, to, strict=True):
            place = place * size + index
        found: list[Expr] = []
        step = prod(shape)
        for axis, size in enumerate(shape):
            step //= size
            quotient = place // step
            found.append(simplify(quotient if axis == 0 else quotient % size, bounds))
        return x[tuple(found)]

    return compute(tuple(to), element, name="out")


@operator
def broadcast_to(shape: Shape, to: Shape, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[...] = x repeated along axes of the size 1, and along new axes in front, as in NumPy."""
    operand = Operands(dtype, constants)
    x, new = operand("x", *shape), len(to) - len(shape)
    if new < 0 or any(a not in (1, b) for a, b in zip(shape, to[max(new, 0) :], strict=False)):
        found = f"{'x'.join(map(str, shape))} to {'x'.join(map(str, to))}"
        raise ArgumentError("broadcast_to repeats axes of the size 1, and adds axes in front", found=found)

    def element(*i: Expr) -> Expr:
        return x[tuple(index if size > 1 else 0 for index, size in zip(i[new:], shape, strict=True))]

    return operand.program(compute(tuple(to), element, name="out"))


@operator
def concat(shapes: Shapes, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out = A, B, ... of the `shapes`, one behind the other along the axis.

    Errors: ArgumentError for shapes that differ in other axes.
    """
    operand = Operands(dtype, constants)
    rank = len(shapes[0])
    place = axis_of("concat", "axis", axis, rank)
    others = {(*shape[:place], *shape[place + 1 :]) for shape in shapes}
    if len(others) > 1 or any(len(shape) != rank for shape in shapes):
        found = ",".join("x".join(map(str, shape)) for shape in shapes)
        raise ArgumentError("shapes of concat differ in more than the axis", found=found)
    parts = [operand(_letter(number), *shape) for number, shape in enumerate(shapes)]
    return operand.program(joined(parts, place))


def joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """One part behind the other along an axis."""
    size = sum(part.shape[axis] for part in parts)
    shape = (*parts[0].shape[:axis], size, *parts[0].shape[axis + 1 :])
    return compute(shape, lambda *i: part_at(parts, axis, i), name="out")


def part_at(parts: Sequence[Tensor], axis: int, i: Sequence[Expr]) -> Expr:
    """The element at indices of parts that lie one behind the other along an axis. Select chains: each part guards its reads by
    where it ends."""
    start = sum(part.shape[axis] for part in parts)
    found: Expr | None = None
    for part in reversed(parts):
        end, start = start, start - part.shape[axis]
        value = part[(*i[:axis], simplify(i[axis] - start), *i[axis + 1 :])]
        found = value if found is None else select(i[axis] < end, value, found)
    assert found is not None
    return found


@operator
def stack(shape: Shape, count: Size, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[..., n, ...] = operand number n (A, B, ...) of `count` operands of one shape, n being a new axis."""
    operand = Operands(dtype, constants)
    few("stack", "count", count, PARTS)
    place = axis_of("stack", "axis", axis, len(shape) + 1)
    parts = [operand(_letter(number), *shape) for number in range(count)]

    def element(*i: Expr) -> Expr:
        rest = (*i[:place], *i[place + 1 :])
        found: Expr = parts[-1][rest]
        for number in reversed(range(count - 1)):
            found = select(i[place].equal(number), parts[number][rest], found)
        return found

    return operand.program(compute((*shape[:place], count, *shape[place:]), element, name="out"))


@operator
def split(shape: Shape, parts: Size, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out0, out1, ... = x cut along the axis into equal parts. Errors: ArgumentError for parts that do not divide the axis."""
    operand = Operands(dtype, constants)
    few("split", "parts", parts, PARTS)
    place = axis_of("split", "axis", axis, len(shape))
    if shape[place] % parts:
        raise ArgumentError("parts of split must divide the axis", found=f"{parts} of {shape[place]}")
    x, size = operand("x", *shape), shape[place] // parts
    cut = (*shape[:place], size, *shape[place + 1 :])

    def part(number: int) -> Tensor:
        return compute(
            cut, lambda *i: x[(*i[:place], simplify(i[place] + number * size), *i[place + 1 :])], name=f"out{number}"
        )

    return operand.program(*(part(number) for number in range(parts)))


@operator
def slice(
    shape: Shape, stop: Offsets, start: Offsets = 0, step: Sizes = 1, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = x[start : stop : step] along each axis; one number for all axes, or one for each.

    Errors: ArgumentError for an empty result, or what lies outside of x.
    """
    operand = Operands(dtype, constants)
    x, rank = operand("x", *shape), len(shape)
    first, end, by = (per_dimension("slice", n, v, rank) for n, v in (("start", start), ("stop", stop), ("step", step)))
    for axis, size in enumerate(shape):
        if not 0 <= first[axis] < end[axis] <= size:
            raise ArgumentError(
                f"axis {axis} of slice has nothing, or too much", expected=f"0 <= start < stop <= {size}",
                found=f"{first[axis]}:{end[axis]}",
            )  # fmt: skip
    sizes = tuple(-(-(end[axis] - first[axis]) // by[axis]) for axis in range(rank))

    def element(*i: Expr) -> Expr:
        return x[tuple(simplify(index * by[axis] + first[axis]) for axis, index in enumerate(i))]

    return operand.program(compute(sizes, element, name="out"))


@operator
def pad(
    shape: Shape, before: Offsets, after: Offsets, mode: str = "constant", value: float = 0.0, dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = x with `before` elements in front of and `after` behind each axis; one number for all axes, or one for each.

    mode "constant" fills them with `value`, "edge" with the nearest element, "reflect" mirrors x at its edge elements.
    Errors: ArgumentError for an unknown mode, or a reflection of more than x has.
    """
    operand = Operands(dtype, constants)
    x, rank = operand("x", *shape), len(shape)
    front, back = per_dimension("pad", "before", before, rank), per_dimension("pad", "after", after, rank)
    choose("pad", "mode", mode, ("constant", "edge", "reflect"))
    if mode == "reflect" and any(max(front[axis], back[axis]) >= size for axis, size in enumerate(shape)):
        raise ArgumentError("pad reflects less than the axis has", found=f"before={before} after={after}")

    def element(*i: Expr) -> Expr:
        places = [simplify(index - front[axis]) for axis, index in enumerate(i)]
        if mode == "edge":
            return x[tuple(minimum(maximum(p, 0), size - 1) for p, size in zip(places, shape, strict=True))]
        if mode == "reflect":
            return x[tuple(mirrored(p, size) for p, size in zip(places, shape, strict=True))]
        guards = []
        for axis, place in enumerate(places):
            guards += [place >= 0] * (front[axis] > 0) + [place < shape[axis]] * (back[axis] > 0)
        found: Expr = x[tuple(places)]
        return select(all_of(guards), found, literal(value, operand.dtype)) if guards else found

    sizes = tuple(size + front[axis] + back[axis] for axis, size in enumerate(shape))
    return operand.program(compute(sizes, element, name="out"))


def mirrored(place: Expr, size: int) -> Expr:
    """|place|, and what is above size - 1 mirrored there."""
    inside = select(place < 0, -place, place)
    return select(place >= size, simplify(2 * (size - 1) - place), inside)


@operator
def tile(shape: Shape, times: Sizes, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[...] = x[i % size, ...]: x laid beside itself `times` along each axis."""
    operand = Operands(dtype, constants)
    x, counts = operand("x", *shape), per_dimension("tile", "times", times, len(shape))

    def element(*i: Expr) -> Expr:
        return x[tuple(i[axis] % size for axis, size in enumerate(shape))]

    return operand.program(
        compute(tuple(size * count for size, count in zip(shape, counts, strict=True)), element, name="out")
    )


@operator
def repeat(shape: Shape, times: Size, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[..., i, ...] = x[..., i // times, ...]: each element `times` along the axis."""
    operand = Operands(dtype, constants)
    x, place = operand("x", *shape), axis_of("repeat", "axis", axis, len(shape))

    def element(*i: Expr) -> Expr:
        return x[(*i[:place], i[place] // times, *i[place + 1 :])]

    sizes = (*shape[:place], shape[place] * times, *shape[place + 1 :])
    return operand.program(compute(sizes, element, name="out"))


@operator
def flip(shape: Shape, axes: Integers, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[..., i, ...] = x[..., size - 1 - i, ...] along the axes."""
    operand = Operands(dtype, constants)
    x = operand("x", *shape)
    turned = {axis_of("flip", "axes", axis, len(shape)) for axis in axes}

    def element(*i: Expr) -> Expr:
        return x[tuple(shape[axis] - 1 - index if axis in turned else index for axis, index in enumerate(i))]

    return operand.program(compute(tuple(shape), element, name="out"))


@operator
def roll(shape: Shape, by: Index, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[..., i, ...] = x[..., (i - by) % size, ...] along the axis."""
    operand = Operands(dtype, constants)
    x, place = operand("x", *shape), axis_of("roll", "axis", axis, len(shape))

    def element(*i: Expr) -> Expr:
        return x[(*i[:place], simplify((i[place] - by) % shape[place]), *i[place + 1 :])]

    return operand.program(compute(tuple(shape), element, name="out"))


@operator
def triangle(
    rows: Size, columns: Size, upper: bool = False, diagonal: Index = 0, dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out[i, j] = x where j - i <= diagonal, else 0; where j - i >= diagonal, if `upper`."""
    operand = Operands(dtype, constants)
    x = operand("x", rows, columns)

    def element(i: Expr, j: Expr) -> Expr:
        return select(j - i >= diagonal if upper else j - i <= diagonal, x[i, j], literal(0, operand.dtype))

    return operand.program(compute((rows, columns), element, name="out"))


@operator
def depth_to_space(
    n: Size, c: Size, h: Size, w: Size, block: Size, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out[n, c, h * block + r, w * block + s] = x[n, (c * block + r) * block + s, h, w].

    x is [n, c * block^2, h, w].
    """
    operand = Operands(dtype, constants)
    x = operand("x", n, c * block * block, h, w)

    def element(n: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        return x[n, simplify((c * block + h % block) * block + w % block), h // block, w // block]

    return operand.program(compute((n, c, h * block, w * block), element, name="out"))


@operator
def space_to_depth(
    n: Size, c: Size, h: Size, w: Size, block: Size, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out[n, (c * block + r) * block + s, h, w] = x[n, c, h * block + r, w * block + s].

    x is [n, c, h * block, w * block].
    """
    operand = Operands(dtype, constants)
    x = operand("x", n, c, h * block, w * block)

    def element(n: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        row, column = h * block + c // block % block, w * block + c % block
        return x[n, c // (block * block), simplify(row), simplify(column)]

    return operand.program(compute((n, c * block * block, h, w), element, name="out"))


@operator
def gather(shape: Shape, count: Size, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[..., k, ...] = x[..., index[k], ...] along the axis, for `count` i64 indices, clamped to the axis."""
    operand = Operands(dtype, constants)
    x, index = operand("x", *shape), operand("index", count, dtype=i64)
    place = axis_of("gather", "axis", axis, len(shape))

    def element(*i: Expr) -> Expr:
        return x[(*i[:place], clamped(index[i[place]], shape[place]), *i[place + 1 :])]

    return operand.program(compute((*shape[:place], count, *shape[place + 1 :]), element, name="out"))


@operator
def take_along_axis(
    shape: Shape, count: Size, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out[..., k, ...] = x[..., index[..., k, ...], ...] along the axis; `count` i64 indices there, clamped to the axis."""
    operand = Operands(dtype, constants)
    place = axis_of("take_along_axis", "axis", axis, len(shape))
    sizes = (*shape[:place], count, *shape[place + 1 :])
    x, index = operand("x", *shape), operand("index", *sizes, dtype=i64)

    def element(*i: Expr) -> Expr:
        return x[(*i[:place], clamped(index[i], shape[place]), *i[place + 1 :])]

    return operand.program(compute(sizes, element, name="out"))


@operator
def embedding(
    tokens: Size, vocabulary: Size, width: Size, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out[tokens, width] = W[index[tokens], width], for i64 indices, clamped to the vocabulary."""
    operand = Operands(dtype, constants)
    index, weights = operand("index", tokens, dtype=i64), operand("W", vocabulary, width)
    return operand.program(compute((tokens, width), lambda t, d: weights[clamped(index[t], vocabulary), d], name="out"))


@operator
def one_hot(count: Size, classes: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[count, classes] = 1 where the class is index[count], else 0, for i64 indices."""
    operand = Operands(dtype, constants)
    index = operand("index", count, dtype=i64)
    one, zero = literal(1, operand.dtype), literal(0, operand.dtype)
    return operand.program(compute((count, classes), lambda i, c: select(index[i].equal(c), one, zero), name="out"))


def clamped(index: Expr, size: int) -> Expr:
    """An index that was read, inside 0 .. size - 1."""
    return minimum(maximum(index, 0), size - 1)


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"A{number}"
