"""Reductions over axes, and scans along one. Narrow floats are added up in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...common.errors import ArgumentError
from ...tensor import build
from ...tensor.build import absolute, compute, literal, reduce_axis, select
from ...tensor.dtype import DType, boolean, i64
from ...tensor.expr import Expr
from ...tensor.functions import Reduction, truth
from ...tensor.ops.movement import clamped
from ...tensor.ops.reduce import extreme_of, log_sum_exp_of, reduced, variance_of
from ...tensor.ops.scan import scanned
from ...tensor.precision import precise
from ...tensor.program import Tensor
from .elementwise import cast, mapped
from .function import axes_of, axis_of, function
from .operands import floating
from .shape import reshape, unsqueeze

Axes = int | Sequence[int] | None


@function
def _reduced(
    x: Tensor, axes: Axes, keep: bool, combine: Callable[..., Reduction], value: Callable[[Expr], Expr],
    then: Callable[[Expr], Expr] | None = None,
) -> Tensor:  # fmt: skip
    """then(combine(value(x))) over axes: `then` is a stage of its own. A scalar is reduced to itself."""
    over = _axes(x, axes)
    made = (
        reduced(x, over, "sums", combine, keep=keep, value=value) if over else compute(x.shape, lambda *i: value(x[i]))
    )
    return made if then is None else compute(made.shape, lambda *i: then(made[i]))


def _axes(x: Tensor, axes: Axes) -> tuple[int, ...]:
    return axes_of(axes if axes is None or isinstance(axes, int) else tuple(axes), len(x.shape))


def count_of(x: Tensor, axes: Axes) -> int:
    """Says how many elements each result of a reduction has."""
    return prod(x.shape[axis] for axis in _axes(x, axes))


def sum(x: Tensor, axes: Axes = None, keep: bool = False, dtype: DType | None = None) -> Tensor:
    """The sum; of integers and bool int64, unless a dtype is given."""
    out = dtype or (x.dtype if x.dtype.is_float else i64)
    inside = _summed(x, out)
    return _reduced(x, axes, keep, build.sum, lambda v: precise(v.cast(inside)), _narrow(out))


def _summed(x: Tensor, out: DType) -> DType:
    """Says in which dtype elements are summed: that of the result, but what is widened by itself."""
    return out if out != boolean else i64


def _narrow(out: DType) -> Callable[[Expr], Expr] | None:
    return (lambda v: v.cast(out)) if out == boolean or (out.is_float and out.bits < 32) else None


def prod_of(x: Tensor, axes: Axes = None, keep: bool = False, dtype: DType | None = None) -> Tensor:
    """The product; of integers and bool int64, unless a dtype is given."""
    out = dtype or (x.dtype if x.dtype.is_float else i64)
    inside = _summed(x, out)
    return _reduced(x, axes, keep, build.prod, lambda v: precise(v.cast(inside)), _narrow(out))


def mean(x: Tensor, axes: Axes = None, keep: bool = False, dtype: DType | None = None) -> Tensor:
    """The mean, of floats."""
    out, count = dtype or floating(x.dtype), float(count_of(x, axes))
    return _reduced(x, axes, keep, build.sum, lambda v: precise(v.cast(out)), lambda v: (v / count).cast(out))


def max(x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
    """The greatest; NaN wins."""
    return _reduced(x, axes, keep, build.max, lambda v: v)


def min(x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
    """The least; NaN wins."""
    return _reduced(x, axes, keep, build.min, lambda v: v)


def any(x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
    """Says whether some element is not 0."""
    return _reduced(x, axes, keep, build.max, truth)


def all(x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
    """Says whether each element is not 0."""
    return _reduced(x, axes, keep, build.min, truth)


@function
def variance(x: Tensor, axes: Axes = None, keep: bool = False, less: float = 1) -> Tensor:
    """The mean of (x - mean)^2, by `less` than the number of elements."""
    over = _axes(x, axes)
    if not over:
        return mapped(lambda v: (v - v) / (1.0 - less), x)
    return cast(variance_of(x, over, keep, "variance", less), x.dtype)


def deviation(x: Tensor, axes: Axes = None, keep: bool = False, less: float = 1) -> Tensor:
    """The root of the variance."""
    return mapped(build.sqrt, variance(x, axes, keep, less))


@function
def log_sum_exp(x: Tensor, axes: Axes = None, keep: bool = False) -> Tensor:
    """log of the sum of exp(x)"""
    wide = x if x.dtype.is_float else cast(x, floating(x.dtype))
    over = _axes(x, axes)
    return cast(log_sum_exp_of(wide, over, keep), wide.dtype) if over else wide


def norm(x: Tensor, order: float = 2, axes: Axes = None, keep: bool = False) -> Tensor:
    """The norm of vectors: of order 1, 2, another one, an infinity, or 0 for how many are not 0."""
    out = floating(x.dtype)

    def size(v: Expr) -> Expr:
        return absolute(precise(v.cast(out)))

    if order in (float("inf"), float("-inf")):
        made = _reduced(x, axes, keep, build.max if order > 0 else build.min, size)
    elif order == 0:
        made = _reduced(x, axes, keep, build.sum, lambda v: size(v).not_equal(0).cast(size(v).dtype))
    elif order == 1:
        made = _reduced(x, axes, keep, build.sum, size)
    elif order == 2:
        made = _reduced(x, axes, keep, build.sum, lambda v: size(v) * size(v), build.sqrt)
    else:
        made = _reduced(
            x, axes, keep, build.sum, lambda v: build.power(size(v), order), lambda v: build.power(v, 1 / order)
        )
    return cast(made, out)


@function
def extreme_index(x: Tensor, axis: int | None = None, keep: bool = False, greatest: bool = True) -> Tensor:
    """The index of the greatest or the least element along an axis, or of all: int64, the first of several; NaN wins."""
    flat = x if axis is not None and x.shape else reshape(x, [-1])
    place = axis_of(axis, len(flat.shape)) if axis is not None else 0
    made = extreme_of(flat, place, greatest)
    if not keep or not x.shape:
        return made
    return unsqueeze(made, place) if axis is not None else reshape(made, [1] * len(x.shape))


@function
def scan(x: Tensor, axis: int, combiner: str = "sum", dtype: DType | None = None, reverse: bool = False) -> Tensor:
    """All elements up to each place along an axis combined: "sum", "prod", "max" or "min"; sums of integers are int64."""
    combine = {"sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": build.maximum, "min": build.minimum}[
        combiner
    ]
    adds = combiner in ("sum", "prod")
    out = dtype or (i64 if adds and not x.dtype.is_float else x.dtype)
    if not x.shape:
        return cast(x, out)
    given = cast(x, out) if x.dtype != out else x
    return scanned(given, axis_of(axis, len(x.shape)), combiner, combine, reverse, precise if adds else lambda v: v)


@function
def histogram(x: Tensor, bins: int, low: float = 0, high: float = 0) -> Tensor:
    """Counts the elements in each of `bins` equal parts of low .. high, `high` in the last one, in the dtype of x; without a
    range (both are equal) in that from the least to the greatest element. Elements outside and NaN count nowhere.
    Errors: ArgumentError for a range that is empty."""
    if low > high or bins < 1:
        raise ArgumentError("a histogram needs parts of a range", found=f"{bins} parts of {low} .. {high}")
    flat = reshape(x, [-1])
    least, most = (literal(low, x.dtype), literal(high, x.dtype)) if low < high else _range_of(flat)
    over = reduce_axis(flat.shape[0], "k")

    def counted(part: Expr) -> build.Reduction:
        value, first, last = precise(flat[over]), precise(least), precise(most)
        place = clamped(((value - first) * bins / (last - first)).cast(i64), bins)
        counts = (value >= first) & (value <= last) & part.equal(place)
        return build.sum(select(counts, literal(1, i64), literal(0, i64)), over)

    return cast(compute((bins,), counted), x.dtype)


def _range_of(x: Tensor) -> tuple[Expr, Expr]:
    """The least and the greatest element of a vector; one below and one above where all are equal."""
    least, most = min(x)[()], max(x)[()]
    apart = select(least.equal(most), literal(1, x.dtype), literal(0, x.dtype))
    return least - apart, most + apart
