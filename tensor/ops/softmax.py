"""Softmax, and attention, which is made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...common.errors import ArgumentError
from .. import build
from ..build import compute, exp, log, maximum, reduce_axis
from ..dtype import DType, least_finite
from ..expr import Expr
from ..indices.affine import simplify
from ..precision import narrowed, precise, wide
from ..program import Program, Tensor
from .arguments import Index, Shape, Size, axis_of
from .operator import Operands, operator


@operator
def softmax(
    rows: Size | None = None, columns: Size | None = None, shape: Shape | None = None, axis: Index = -1,
    dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = exp(x) / sum of exp(x) over the axis, computed from x - max. Of x[rows, columns], or of x of any `shape`."""
    operand = Operands(dtype, constants)
    sizes = _sizes("softmax", rows, columns, shape)
    return operand.program(softmax_of(operand("x", *sizes), "out", axis_of("softmax", "axis", axis, len(sizes))))


@operator
def log_softmax(
    rows: Size | None = None, columns: Size | None = None, shape: Shape | None = None, axis: Index = -1,
    dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out = x - max - log(sum of exp(x - max)) over the axis. Of x[rows, columns], or of x of any `shape`."""
    operand = Operands(dtype, constants)
    sizes = _sizes("log_softmax", rows, columns, shape)
    out = log_softmax_of(operand("x", *sizes), "out", axis_of("log_softmax", "axis", axis, len(sizes)))
    return operand.program(narrowed(out, operand.dtype))


@operator
def matmul_softmax(m: Size, n: Size, k: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[m, n] = softmax over n of A[m, k] B[k, n]"""
    operand = Operands(dtype, constants)
    a, b, axis = operand("A", m, k), operand("B", k, n), reduce_axis(k, "k")
    product = compute((m, n), lambda i, j: build.sum(wide(a[i, axis]) * wide(b[axis, j]), axis), name="C")
    return operand.program(softmax_of(product, "out", dtype=operand.dtype))


@operator
def attention(
    heads: Size, queries: Size, keys: Size, width: Size, causal: bool = False, mask: bool = False,
    scale: float | None = None, dtype: str = "f32", constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """O[heads, queries, width] = softmax(Q K^T * scale (+ M)) V, with K and V [heads, keys, width].

    `scale` is 1 / sqrt(width) unless given. With `mask` M[queries, keys] is added to the scores of every head. A `causal`
    query i sees the keys 0 .. i only.
    """
    operand = Operands(dtype, constants)
    q = operand("Q", heads, queries, width)
    k, v = operand("K", heads, keys, width), operand("V", heads, keys, width)
    added = operand("M", queries, keys) if mask else None
    factor = 1 / math.sqrt(width) if scale is None else float(scale)
    adjusted = (lambda i, value: value + precise(added[i[1], i[2]])) if added is not None else None
    return operand.program(narrowed(attended(q, k, v, factor, causal, adjusted), operand.dtype))


def attended(
    q: Tensor, k: Tensor, v: Tensor, factor: float, causal: bool = False,
    adjusted: Callable[[Sequence[Expr], Expr], Expr] | None = None, empty: bool = False, rounded: DType | None = None,
) -> Tensor:  # fmt: skip
    """softmax(Q K^T * factor) V over the last two axes, wide; the axes before are the same, but for the last of them, of which
    K and V may have a fraction: then queries of several heads share a head of theirs.

    `adjusted`: the score at some indices, from those of heads, query and key, and what it is before. A `causal` query i sees
    the keys 0 .. i only. `empty`: whether a query may see no key, all its scores being -inf: its result is 0 then, not NaN.
    `rounded`: the dtype to which the softmax is rounded before it is multiplied with V; that of the scores unless given.
    """
    outer, queries, width, keys = q.shape[:-2], q.shape[-2], q.shape[-1], k.shape[-2]
    names = (*(f"n{number}" for number in range(len(outer) - 1)), *["h"][: len(outer)], "i")
    d, j = reduce_axis(width, "d"), reduce_axis(keys, "j")
    shared = outer[-1] // k.shape[-3] if outer else 1

    def heads(i: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(i[:-1]) if shared == 1 else (*i[:-2], simplify(i[-2] // shared))

    def product(*i: Expr) -> build.Reduction:
        return build.sum(wide(q[(*i[:-1], d)]) * wide(k[(*heads(i[:-1]), i[-1], d)]), d)

    dots = compute((*outer, queries, keys), product, name="dots", axes=(*names, "j"))

    def score(*i: Expr) -> Expr:
        value = dots[i] * factor
        return seen(i, value if adjusted is None else adjusted(i, value), -math.inf)

    def seen(i: Sequence[Expr], value: Expr, otherwise: float) -> Expr:
        return build.select(i[-1] <= i[-2], value, otherwise) if causal else value

    scores = compute(dots.shape, score, name="scores", axes=(*names, "j"))
    p = softmax_of(scores, "P", seen=lambda at, value: seen(at, value, 0.0), dtype=rounded, empty=empty)

    def term(*i: Expr) -> build.Reduction:
        at = (*i[:-1], j)
        return build.sum(seen(at, precise(p[at]) * precise(v[(*heads(i[:-1]), j, i[-1])]), 0.0), j)

    return compute((*outer, queries, v.shape[-1]), term, name="O", axes=(*names, "d"))


def softmax_of(
    x: Tensor, name: str, axis: int = -1, seen: Callable[[Sequence[Expr], Expr], Expr] = lambda _, value: value,
    dtype: DType | None = None, empty: bool = False,
) -> Tensor:  # fmt: skip
    """The softmax of a tensor over one of its axes, as four stages.

    `seen`: what is added up of a power at some indices, 0 for those that do not count. `dtype`: of the result, that of x
    unless given. `empty`: whether it is 0, not NaN, where all x are -inf. The maximum is finite then, so that powers are 0, and
    so is their sum, which is 1 at least elsewhere: of the maximum alone the power is 1.
    """
    top = largest(x, f"{name}_max", axis)

    def power(*i: Expr) -> Expr:
        greatest = top[without(i, axis)]
        return exp(precise(x[i]) - (maximum(greatest, least_finite(top.dtype)) if empty else greatest))

    powers = compute(x.shape, power, name=f"{name}_exp")
    sums = _over(powers, f"{name}_sum", axis, build.sum, seen)

    def element(*i: Expr) -> Expr:
        divisor = sums[without(i, axis)]
        return (powers[i] / (maximum(divisor, 1.0) if empty else divisor)).cast(dtype or x.dtype)

    return compute(x.shape, element, name=name)


def log_softmax_of(x: Tensor, name: str, axis: int = -1) -> Tensor:
    """The logarithm of softmax over one axis; that of narrow elements is float32."""
    top = largest(x, f"{name}_max", axis)
    powers = compute(x.shape, lambda *i: exp(precise(x[i]) - top[without(i, axis)]), name=f"{name}_exp")
    sums = total(powers, f"{name}_sum", axis)

    def element(*i: Expr) -> Expr:
        return precise(x[i]) - top[without(i, axis)] - log(sums[without(i, axis)])

    return compute(x.shape, element, name=name)


def largest(x: Tensor, name: str, axis: int) -> Tensor:
    """The maximum over one axis, which is dropped; that of narrow elements is float32."""
    return _over(x, name, axis, build.max)


def total(x: Tensor, name: str, axis: int) -> Tensor:
    """The sum over one axis, which is dropped; that of narrow elements is float32."""
    return _over(x, name, axis, build.sum)


def without(indices: Sequence[Expr], axis: int) -> tuple[Expr, ...]:
    """The indices but the one of the axis."""
    place = axis % len(indices)
    return (*indices[:place], *indices[place + 1 :])


def _over(
    x: Tensor, name: str, axis: int, combine: Callable[..., build.Reduction],
    seen: Callable[[Sequence[Expr], Expr], Expr] = lambda _, value: value,
) -> Tensor:  # fmt: skip
    place = axis % len(x.shape)
    over = reduce_axis(x.shape[place], "j")
    outer = (*x.shape[:place], *x.shape[place + 1 :])

    def term(*i: Expr) -> build.Reduction:
        at = (*i[:place], over, *i[place:])
        return combine(seen(at, precise(x[at])), over)

    return compute(outer, term, name=name)


def _sizes(name: str, rows: int | None, columns: int | None, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the sizes of a matrix, or the shape that was given instead."""
    if rows is not None and columns is not None and shape is None:
        return rows, columns
    if shape and rows is None and columns is None:
        return tuple(shape)
    raise ArgumentError(
        f"{name} needs either rows and columns or a shape", expected="rows=64 columns=32, or shape=4x8x16"
    )
