"""Sums at computed places: counts of values, and rows added to rows that an index names.

Each is a sum over all terms of which only those count whose place is meant (tensor/indices/scatter.py). What lies outside of
all places adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...common.errors import ArgumentError
from .. import build
from ..build import compute, literal, reduce_axis, select
from ..dtype import i64
from ..expr import Expr
from ..precision import narrowed, precise
from ..program import Program, Tensor
from .arguments import Index, Shape, Size, axis_of
from .movement import clamped
from .operator import Operands, floats, operator


@operator
def bincount(shape: Shape, bins: Size, dtype: str = "u8", constants: Sequence[str] = ()) -> Program:
    """out[b] = how many elements of x are b, for b in 0 .. bins - 1; i64.

    Unlike NumPy's and torch's, elements outside count nowhere: these make room for greater ones, and refuse negative ones.
    """
    operand = Operands(dtype, constants)
    if not operand.dtype.is_integer:
        raise ArgumentError("bincount needs integers", expected="u8, i32, i64, ...", found=str(operand.dtype))
    x, over = operand("x", *shape), [reduce_axis(size, f"k{axis}") for axis, size in enumerate(shape)]
    one, zero = literal(1, i64), literal(0, i64)

    def counted(b: Expr) -> build.Reduction:
        return build.sum(select(b.equal(x[tuple(over)].cast(i64)), one, zero), over)

    return operand.program(compute((bins,), counted, name="out"))


@operator
def histogram(
    shape: Shape, bins: Size, low: float = 0.0, high: float = 1.0, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out[b] = how many elements of x lie in part b of `bins` equal parts of low .. high, `high` in the last one; i64.

    Elements outside and NaN count nowhere, as in NumPy and torch. An element within a rounding of where two parts meet counts
    in either.
    Errors: ArgumentError for a range that is empty.
    """
    operand = floats("histogram", dtype, constants)
    if not low < high:
        raise ArgumentError("histogram has an empty range", expected="low < high", found=f"{low} .. {high}")
    x, over = operand("x", *shape), [reduce_axis(size, f"k{axis}") for axis, size in enumerate(shape)]
    one, zero = literal(1, i64), literal(0, i64)

    def counted(b: Expr) -> build.Reduction:
        value = precise(x[tuple(over)])
        part = clamped(((value - low) * (bins / (high - low))).cast(i64), bins)
        return build.sum(select((value >= low) & (value <= high) & b.equal(part), one, zero), over)

    return operand.program(compute((bins,), counted, name="out"))


@operator
def scatter_add(
    shape: Shape, count: Size, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = x, and out[..., index[..., k, ...], ...] += updates[..., k, ...] along the axis, for `count` i64 indices there.

    Unlike torch's and ONNX's, an index outside of the axis adds nothing, where these raise an error; a negative one does not
    count from the end.
    """
    operand = Operands(dtype, constants)
    place = axis_of("scatter_add", "axis", axis, len(shape))
    sizes = (*shape[:place], count, *shape[place + 1 :])
    x, index, updates = operand("x", *shape), operand("index", *sizes, dtype=i64), operand("updates", *sizes)

    def met(i: tuple[Expr, ...], k: Expr) -> tuple[Expr, Expr]:
        own = (*i[:place], k, *i[place + 1 :])
        return index[own], updates[own]

    return operand.program(_added(x, place, count, met))


@operator
def index_add(shape: Shape, count: Size, axis: Index = 0, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out = x, and out[..., index[k], ...] += updates[..., k, ...] along the axis, for `count` i64 indices.

    Unlike torch's and NumPy's, an index outside of the axis adds nothing, where these raise an error; a negative one does not
    count from the end.
    """
    operand = Operands(dtype, constants)
    place = axis_of("index_add", "axis", axis, len(shape))
    sizes = (*shape[:place], count, *shape[place + 1 :])
    x, index, updates = operand("x", *shape), operand("index", count, dtype=i64), operand("updates", *sizes)

    def met(i: tuple[Expr, ...], k: Expr) -> tuple[Expr, Expr]:
        return index[k], updates[(*i[:place], k, *i[place + 1 :])]

    return operand.program(_added(x, place, count, met))


@operator
def segment_sum(shape: Shape, segments: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[s, ...] = sum of x[k, ...] over all k of which segment[k] is s, for i64 segments.

    A segment outside of 0 .. segments - 1 adds nothing.
    """
    operand = Operands(dtype, constants)
    x, segment, k = operand("x", *shape), operand("segment", shape[0], dtype=i64), reduce_axis(shape[0], "k")

    def summed(*i: Expr) -> build.Reduction:
        value = precise(x[(k, *i[1:])])
        return build.sum(select(i[0].equal(segment[k]), value, literal(0, value.dtype)), k)

    sums = compute((segments, *shape[1:]), summed, name="out")
    return operand.program(narrowed(sums, operand.dtype))


def _added(x: Tensor, place: int, count: int, met: Callable[[tuple[Expr, ...], Expr], tuple[Expr, Expr]]) -> Tensor:
    """x with terms added along an axis. `met`: the index and the value of term k at a point."""
    k = reduce_axis(count, "k")

    def summed(*i: Expr) -> build.Reduction:
        index, value = met(i, k)
        value = precise(value)
        return build.sum(select(i[place].equal(index), value, literal(0, value.dtype)), k)

    sums = compute(x.shape, summed, name="sums")
    return compute(x.shape, lambda *i: (precise(x[i]) + sums[i]).cast(x.dtype), name="out")
