"""Reductions and what is made of several of them: softmax, normalisation, attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from . import build
from .build import compute, exp, reduce_axis, rsqrt
from .expr import Expr
from .operator import Operands, Size, operator
from .program import Program, Tensor


@operator
def row_sum(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows] = sum of x over columns"""
    return _reduced("sum", rows, columns, True, dtype, constants)


@operator
def column_sum(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[columns] = sum of x over rows"""
    return _reduced("sum", rows, columns, False, dtype, constants)


@operator
def row_max(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows] = max of x over columns"""
    return _reduced("max", rows, columns, True, dtype, constants)


@operator
def column_max(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[columns] = max of x over rows"""
    return _reduced("max", rows, columns, False, dtype, constants)


@operator
def row_mean(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows] = mean of x over columns"""
    operand = Operands(dtype, constants)
    return operand.program(_row_mean(operand("x", rows, columns), "out"))


@operator
def total(size: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[] = sum of x"""
    operand = Operands(dtype, constants)
    x, i = operand("x", size), reduce_axis(size, "i")
    return operand.program(compute((), lambda: build.sum(x[i], i), name="out"))


@operator
def softmax(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = exp(x) / sum of exp(x) over columns, computed from x - max"""
    operand = Operands(dtype, constants)
    return operand.program(_softmax(operand("x", rows, columns), "out"))


@operator
def matmul_softmax(m: Size, n: Size, k: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[m, n] = softmax over n of A[m, k] B[k, n]"""
    operand = Operands(dtype, constants)
    a, b, axis = operand("A", m, k), operand("B", k, n), reduce_axis(k, "k")
    product = compute((m, n), lambda i, j: build.sum(a[i, axis] * b[axis, j], axis), name="C")
    return operand.program(_softmax(product, "out"))


@operator
def attention(
    heads: Size, queries: Size, keys: Size, width: Size, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """O[heads, queries, width] = softmax(Q K^T / sqrt(width)) V, with K and V [heads, keys, width]"""
    operand = Operands(dtype, constants)
    q = operand("Q", heads, queries, width)
    k, v = operand("K", heads, keys, width), operand("V", heads, keys, width)
    d, j = reduce_axis(width, "d"), reduce_axis(keys, "j")
    dots = compute((heads, queries, keys), lambda h, i, j: build.sum(q[h, i, d] * k[h, j, d], d), name="dots")
    scores = compute(dots.shape, lambda h, i, j: dots[h, i, j] * (1 / math.sqrt(width)), name="scores")
    p = _softmax(scores, "P")
    return operand.program(compute(q.shape, lambda h, i, d: build.sum(p[h, i, j] * v[h, j, d], j), name="O"))


@operator
def layer_norm(
    rows: Size, columns: Size, epsilon: float = 1e-5, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = (x - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance over columns"""
    operand = Operands(dtype, constants)
    x, gamma, beta = operand("x", rows, columns), operand("gamma", columns), operand("beta", columns)
    return operand.program(layer_normalised(x, lambda j: gamma[j], lambda j: beta[j], epsilon))


def layer_normalised(x: Tensor, gamma: Callable[[Expr], Expr], beta: Callable[[Expr], Expr], epsilon: float) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta of a matrix, mean and variance over its columns."""
    rows, columns = x.shape
    mean = _row_mean(x, "mean")
    centred = compute((rows, columns), lambda i, j: x[i, j] - mean[i], name="centred")
    squares = compute((rows, columns), lambda i, j: centred[i, j] * centred[i, j], name="squares")
    variance = _row_mean(squares, "variance")
    scale = compute(rows, lambda i: rsqrt(variance[i] + epsilon), name="scale")
    return compute((rows, columns), lambda i, j: centred[i, j] * scale[i] * gamma(j) + beta(j), name="out")


@operator
def rms_norm(
    rows: Size, columns: Size, epsilon: float = 1e-5, dtype: str = "f32", constants: Sequence[str] = ()
) -> Program:
    """out = x / sqrt(mean of x^2 + epsilon) * gamma, the mean over columns"""
    operand = Operands(dtype, constants)
    x, gamma, j = operand("x", rows, columns), operand("gamma", columns), reduce_axis(columns, "j")
    squares = compute(rows, lambda i: build.sum(x[i, j] * x[i, j], j), name="squares")
    scale = compute(rows, lambda i: rsqrt(squares[i] / float(columns) + epsilon), name="scale")
    return operand.program(compute((rows, columns), lambda i, j: x[i, j] * scale[i] * gamma[j], name="out"))


def _reduced(
    combiner: str, rows: int, columns: int, over_columns: bool, dtype: str, constants: Sequence[str]
) -> Program:
    operand = Operands(dtype, constants)
    x = operand("x", rows, columns)
    combine = getattr(build, combiner)
    if over_columns:
        j = reduce_axis(columns, "j")
        return operand.program(compute(rows, lambda i: combine(x[i, j], j), name="out"))
    i = reduce_axis(rows, "i")
    return operand.program(compute(columns, lambda j: combine(x[i, j], i), name="out"))


def _row_mean(x: Tensor, name: str) -> Tensor:
    *_, columns = x.shape
    j = reduce_axis(columns, "j")
    sums = compute(x.shape[:-1], lambda i: build.sum(x[i, j], j), name=f"{name}_sum")
    return compute(x.shape[:-1], lambda i: sums[i] / float(columns), name=name)


def _softmax(x: Tensor, name: str) -> Tensor:
    """Over the last dimension."""
    *outer, columns = x.shape
    over_max, over_sum = reduce_axis(columns, "j"), reduce_axis(columns, "j")
    top = compute(outer, lambda *i: build.max(x[(*i, over_max)], over_max), name=f"{name}_max")
    powers = compute(x.shape, lambda *i: exp(x[i] - top[i[:-1]]), name=f"{name}_exp")
    sums = compute(outer, lambda *i: build.sum(powers[(*i, over_sum)], over_sum), name=f"{name}_sum")
    return compute(x.shape, lambda *i: powers[i] / sums[i[:-1]], name=name)
