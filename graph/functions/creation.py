"""Tensors that are made of nothing but their places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ...tensor import build
from ...tensor.build import compute, literal, reduce_axis, select, sqrt, table
from ...tensor.dtype import DType, f64, i64
from ...tensor.expr import Expr
from ...tensor.indices.affine import simplify
from ...tensor.ops.movement import clamped
from ...tensor.program import Tensor
from .function import NotCovered, axis_of, function


@function
def full(shape: Sequence[int], value: float, dtype: DType) -> Tensor:
    """One number everywhere."""
    return compute(tuple(shape), lambda *_: literal(value, dtype))


@function
def arange(count: int, start: float, step: float, dtype: DType) -> Tensor:
    """start, start + step, ... of `count` elements."""

    def element(i: Expr) -> Expr:
        if dtype.is_integer:
            return simplify(i * int(step) + int(start)).cast(dtype)
        return (i.cast(f64) * float(step) + float(start)).cast(dtype)

    return compute((count,), element)


@function
def eye(rows: int, columns: int, dtype: DType) -> Tensor:
    """1 on the diagonal, else 0."""
    one, zero = literal(1, dtype), literal(0, dtype)
    return compute((rows, columns), lambda i, j: select(i.equal(j), one, zero))


@function
def triangle(x: Tensor, upper: bool, diagonal: int = 0) -> Tensor:
    """x where column - row <= diagonal (>= if `upper`), else 0, of the last two axes."""
    zero = literal(0, x.dtype)

    def element(*i: Expr) -> Expr:
        away = i[-1] - i[-2]
        return select(away >= diagonal if upper else away <= diagonal, x[i], zero)

    return compute(x.shape, element)


@function
def triangle_indices(rows: int, columns: int, upper: bool, diagonal: int = 0) -> Tensor:
    """Rows, then columns, of all places of a matrix that `triangle` keeps, row by row: i64[2, number of places]."""
    firsts = [min(max(row + diagonal, 0), columns) if upper else 0 for row in range(rows)]
    lengths = [
        columns - first if upper else min(max(row + diagonal + 1, 0), columns) for row, first in enumerate(firsts)
    ]
    ends = list(accumulate(lengths))
    if not ends or not ends[-1]:
        raise NotCovered("results without elements")
    end_of_row = table(ends, i64)
    moved = table([first + length - end for first, length, end in zip(firsts, lengths, ends, strict=True)], i64)
    count = reduce_axis(rows)
    row = compute((ends[-1],), lambda k: build.sum((end_of_row[count] <= k).cast(i64), count))
    return compute((2, ends[-1]), lambda which, k: select(which.equal(0), row[k], k + moved[clamped(row[k], rows)]))


@function
def one_hot(index: Tensor, classes: int, dtype: DType, axis: int = -1, on: float = 1, off: float = 0) -> Tensor:
    """`on` where the place along a new axis is the index, else `off`; negative indices count from the end."""
    place = axis_of(axis, len(index.shape) + 1)
    shape = (*index.shape[:place], classes, *index.shape[place:])

    def element(*i: Expr) -> Expr:
        chosen = index[(*i[:place], *i[place + 1 :])].cast(i64)
        hit = chosen.equal(i[place]) | (chosen + classes).equal(i[place])
        return select(hit, literal(on, dtype), literal(off, dtype))

    return compute(shape, element)


@function
def pairs(count: int) -> tuple[Tensor, Tensor]:
    """All i < j below `count`, i64: (0, 1), (0, 2), ..., (1, 2), ...

    Row i begins at i * (2 * count - i - 1) / 2. A root finds the row but for roundings, which its neighbours correct.
    """
    if count < 2:
        raise NotCovered("results without elements")

    def begin(i: Expr) -> Expr:
        return i * (2 * count - 1 - i) // 2

    def row(k: Expr) -> Expr:
        whole = float(2 * count - 1)
        near = ((whole - sqrt(whole * whole - 8.0 * k.cast(f64))) / 2.0).cast(i64)
        lower = select(begin(near) > k, near - 1, near)
        return select(begin(lower + 1) <= k, lower + 1, lower)

    first = compute((count * (count - 1) // 2,), row, name="first")
    return first, compute(first.shape, lambda k: k - begin(first[k]) + first[k] + 1, name="second")
