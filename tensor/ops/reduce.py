"""Reductions: over the rows or columns of a matrix, and over any axes of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod

from ...common.errors import ArgumentError
from .. import build
from ..build import absolute, compute, reduce_axis, select
from ..dtype import boolean, i64
from ..expr import Const, Expr
from ..functions import Reduction, truth
from ..precision import narrowed, precise, summand
from ..program import Program, Tensor
from ..stage_edits import identity_of
from .arguments import Index, Integers, Shape, Size, axis_of
from .operator import Operands, floats, operator


@operator
def row_sum(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows] = sum of x over columns

    Integers are added in i64, and the result is i64, as in torch. Unlike NumPy's, that of u8 is i64 too; ONNX keeps the
    dtype.
    """
    return _of_matrix(build.sum, rows, columns, 1, dtype, constants, summand)


@operator
def column_sum(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[columns] = sum of x over rows

    Integers are added in i64, and the result is i64, as in torch. Unlike NumPy's, that of u8 is i64 too; ONNX keeps the
    dtype.
    """
    return _of_matrix(build.sum, rows, columns, 0, dtype, constants, summand)


@operator
def row_max(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows] = max of x over columns"""
    return _of_matrix(build.max, rows, columns, 1, dtype, constants)


@operator
def column_max(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[columns] = max of x over rows"""
    return _of_matrix(build.max, rows, columns, 0, dtype, constants)


@operator
def row_mean(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows] = mean of x over columns"""
    operand = Operands(dtype, constants)
    return operand.program(narrowed(mean_of_rows(operand("x", rows, columns), "out"), operand.dtype))


@operator
def total(size: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[] = sum of x

    Integers are added in i64, and the result is i64, as in torch. Unlike NumPy's, that of u8 is i64 too; ONNX keeps the
    dtype.
    """
    operand = Operands(dtype, constants)
    return operand.program(over_all(operand("x", size), "out"))


def _reduction(
    name: str, meaning: str, make: Callable[[Tensor, tuple[int, ...], bool], Tensor], dtype: str, divides: bool = False,
    more: str = "",
) -> None:  # fmt: skip
    """Registers a reduction of x of any shape; `make` has the tensor, its axes to reduce, and whether to keep them.

    `more`: what else there is to say, in sentences.
    """
    default = dtype

    def build(
        shape: Shape, axes: Integers | None = None, keep: bool = False, dtype: str = default,
        constants: Sequence[str] = (),
    ) -> Program:  # fmt: skip
        operand = floats(name, dtype, constants) if divides else Operands(dtype, constants)
        made = make(operand("x", *shape), axes_of(name, axes, len(shape)), keep)
        return operand.program(narrowed(made, operand.dtype) if made.dtype.is_float else made)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"out = {meaning} over `axes`, all unless given; they stay with the size 1 if `keep`."
    build.__doc__ += f"\n\n{more}" if more else ""
    operator(build)


_INT64 = (
    "Integers are taken in i64, and the result is i64, as in torch. Unlike NumPy's, that of u8 is i64 too; ONNX keeps the "
    "dtype."
)
_OF_ALL = "Unlike torch's by default, it divides by the number of elements, not by one less."


def axes_of(name: str, axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes to reduce, in order: all unless given. Errors: ArgumentError for an axis that there is not, or is twice."""
    found = sorted(range(rank) if axes is None else (axis_of(name, "axes", axis, rank) for axis in axes))
    if len(set(found)) < len(found) or not found:
        raise ArgumentError(f"axes of {name} are none, or one is given twice", found=repr(axes))
    return tuple(found)


def reduced(
    x: Tensor, axes: Sequence[int], name: str, combine: Callable[..., Reduction], *, keep: bool = False,
    value: Callable[[Expr], Expr] = lambda element: element,
) -> Tensor:  # fmt: skip
    """combine(value(x)) over axes."""
    over = {axis: reduce_axis(x.shape[axis], f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(x.shape)) if keep or axis not in over]
    shape = tuple(1 if axis in over else x.shape[axis] for axis in kept)

    def body(*i: Expr) -> Reduction:
        place: dict[int, Expr] = {**dict(zip(kept, i, strict=True)), **over}
        return combine(value(x[tuple(place[axis] for axis in range(len(x.shape)))]), list(over.values()))

    return compute(shape, body, name=name)


def _then(made: Tensor, change: Callable[[Expr], Expr]) -> Tensor:
    return compute(made.shape, lambda *i: change(made[i]), name="out")


def _counted(x: Tensor, axes: tuple[int, ...]) -> float:
    return float(prod(x.shape[axis] for axis in axes))


def variance_of(x: Tensor, axes: tuple[int, ...], keep: bool, name: str = "out", less: float = 0) -> Tensor:
    """The mean of (x - mean)^2 over axes, by `less` than the number of elements."""
    count = _counted(x, axes)
    sums = reduced(x, axes, "mean_sum", build.sum, keep=True, value=precise)
    mean = compute(sums.shape, lambda *i: sums[i] / count, name="mean")

    def away(*i: Expr) -> Expr:
        return precise(x[i]) - mean[tuple(Const(0, i64) if axis in axes else index for axis, index in enumerate(i))]

    centred = compute(x.shape, away, name="centred")
    squares = reduced(centred, axes, "squares", build.sum, keep=keep, value=lambda v: v * v)
    return compute(squares.shape, lambda *i: squares[i] / (count - less), name=name)


def _deviation(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return _then(variance_of(x, axes, keep, "variance"), build.sqrt)


def log_sum_exp_of(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """log of the sum of exp(x) over axes."""
    top = reduced(x, axes, "top", build.max, keep=True, value=precise)

    def power(*i: Expr) -> Expr:
        return build.exp(
            precise(x[i]) - top[tuple(Const(0, i64) if axis in axes else index for axis, index in enumerate(i))]
        )

    sums = reduced(compute(x.shape, power, name="powers"), axes, "sums", build.sum, keep=keep)
    dropped = [axis for axis in range(len(x.shape)) if axis in axes and not keep]

    def element(*i: Expr) -> Expr:
        rest = iter(i)
        place = tuple(Const(0, i64) if axis in dropped else next(rest) for axis in range(len(x.shape)))
        return select(absolute(top[place]) < math.inf, build.log(sums[i]) + top[place], top[place])

    return compute(sums.shape, element, name="out")


_reduction("sum", "sum of x", lambda x, axes, keep: reduced(
    x, axes, "out", build.sum, keep=keep, value=summand), "f32", more=_INT64)  # fmt: skip
_reduction("prod", "product of x", lambda x, axes, keep: reduced(
    x, axes, "out", build.prod, keep=keep, value=summand), "f32", more=_INT64)  # fmt: skip
_reduction("max", "max of x", lambda x, axes, keep: reduced(x, axes, "out", build.max, keep=keep), "f32")
_reduction("min", "min of x", lambda x, axes, keep: reduced(x, axes, "out", build.min, keep=keep), "f32")
_reduction("any", "whether some x is true, which is not 0", lambda x, axes, keep: reduced(
    x, axes, "out", build.max, keep=keep, value=truth), "bool")  # fmt: skip
_reduction("all", "whether each x is true, which is not 0", lambda x, axes, keep: reduced(
    x, axes, "out", build.min, keep=keep, value=truth), "bool")  # fmt: skip
_reduction("mean", "mean of x", lambda x, axes, keep: _then(
    reduced(x, axes, "sums", build.sum, keep=keep, value=precise), lambda v: v / _counted(x, axes)), "f32", True)  # fmt: skip
_reduction("variance", "mean of (x - mean)^2", variance_of, "f32", True, more=_OF_ALL)
_reduction("deviation", "sqrt of the mean of (x - mean)^2", _deviation, "f32", True, more=_OF_ALL)
_reduction("norm1", "sum of |x|", lambda x, axes, keep: reduced(
    x, axes, "out", build.sum, keep=keep, value=lambda v: absolute(summand(v))), "f32", more=_INT64)  # fmt: skip
_reduction("norm2", "sqrt of the sum of x^2", lambda x, axes, keep: _then(reduced(
    x, axes, "squares", build.sum, keep=keep, value=lambda v: precise(v) * precise(v)), build.sqrt), "f32", True)  # fmt: skip
_reduction("norm_inf", "max of |x|", lambda x, axes, keep: reduced(
    x, axes, "out", build.max, keep=keep, value=absolute), "f32")  # fmt: skip
_reduction("count_nonzero", "how many x are not 0", lambda x, axes, keep: reduced(
    x, axes, "out", build.sum, keep=keep, value=lambda v: v.not_equal(0).cast(i64)), "f32")  # fmt: skip
_reduction("log_sum_exp", "log of the sum of exp(x)", log_sum_exp_of, "f32", True)


@operator
def argmax(shape: Shape, axis: Index = -1, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out = the index along the axis, which is dropped, of the greatest x: i64, the first of several; NaN wins."""
    return _extreme("argmax", shape, axis, Operands(dtype, constants))


@operator
def argmin(shape: Shape, axis: Index = -1, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out = the index along the axis, which is dropped, of the least x: i64, the first of several; NaN wins."""
    return _extreme("argmin", shape, axis, Operands(dtype, constants))


def _extreme(name: str, shape: Sequence[int], axis: int, operand: Operands) -> Program:
    place = axis_of(name, "axis", axis, len(shape))
    return operand.program(extreme_of(operand("x", *shape), place, name == "argmax"))


def extreme_of(x: Tensor, place: int, greatest: bool) -> Tensor:
    """The index along an axis of the greatest or the least x: see argmax. A fold that carries the best so far."""
    shape, dtype = x.shape, x.dtype
    over = reduce_axis(shape[place], "k")
    outer = (*shape[:place], *shape[place + 1 :])

    def step(*given: Expr) -> list[Expr]:
        i, best, index = given[: len(outer)], given[-2], given[-1]
        value = x[(*i[:place], over, *i[place:])]
        if dtype == boolean:
            better = value & ~best if greatest else ~value & best
        else:
            better = value > best if greatest else value < best
        if dtype.is_float:
            better = better | (value.not_equal(value) & best.equal(best))
        better = build.named("better", better)
        return [select(better, value, best), select(better, over, index)]

    first = identity_of("max" if greatest else "min", Const(0, dtype)).value
    states = [build.State("best", len(outer), first, dtype), build.State("out", len(outer), 0, i64)]
    return build.fold(outer, over, states, step)[1]


def over_all(x: Tensor, name: str) -> Tensor:
    """The sum of all elements."""
    return reduced(x, range(len(x.shape)), name, build.sum, value=summand)


def mean_of_rows(x: Tensor, name: str, over: int = 1) -> Tensor:
    """The mean over the last axis, or several; that of narrow elements is float32."""
    outer, inner = x.shape[:-over], x.shape[-over:]
    letters = axis_letters(x)
    axes, within = letters[:-over], [reduce_axis(s, n) for s, n in zip(inner, letters[-over:], strict=True)]
    sums = compute(outer, lambda *i: build.sum(precise(x[(*i, *within)]), within), name=f"{name}_sum", axes=axes)
    return compute(outer, lambda *i: sums[i] / float(prod(inner)), name=name, axes=axes)


def axis_letters(x: Tensor) -> tuple[str, ...]:
    """Names for the axes of a tensor: i, j, and so on."""
    rank = len(x.shape)
    return tuple("ijklmnop"[:rank]) if rank <= 8 else tuple(f"i{axis}" for axis in range(rank))


def _of_matrix(
    combine: Callable[..., Reduction], rows: int, columns: int, axis: int, dtype: str, constants: Sequence[str],
    value: Callable[[Expr], Expr] = lambda element: element,
) -> Program:  # fmt: skip
    operand = Operands(dtype, constants)
    return operand.program(reduced(operand("x", rows, columns), (axis,), "out", combine, value=value))
