"""Tensors that are made of nothing but their places."""

from __future__ import annotations

from collections.abc import Sequence

from ...tensor.build import compute, literal, select
from ...tensor.dtype import DType, f64, i64
from ...tensor.expr import Expr
from ...tensor.indices.affine import simplify
from ...tensor.program import Tensor
from .function import axis_of, function


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
def one_hot(index: Tensor, classes: int, dtype: DType, axis: int = -1, on: float = 1, off: float = 0) -> Tensor:
    """`on` where the place along a new axis is the index, else `off`; negative indices count from the end."""
    place = axis_of(axis, len(index.shape) + 1)
    shape = (*index.shape[:place], classes, *index.shape[place:])

    def element(*i: Expr) -> Expr:
        chosen = index[(*i[:place], *i[place + 1 :])].cast(i64)
        hit = chosen.equal(i[place]) | (chosen + classes).equal(i[place])
        return select(hit, literal(on, dtype), literal(off, dtype))

    return compute(shape, element)
