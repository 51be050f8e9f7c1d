"""Reductions and what is made of several of them: softmax, normalisation, attention."""

from __future__ import annotations

from collections.abc import Sequence

from . import build
from .arguments import Size
from .build import compute, reduce_axis
from .operator import Operands, operator
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
    return operand.program(mean_of_rows(operand("x", rows, columns), "out"))


@operator
def total(size: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[] = sum of x"""
    operand = Operands(dtype, constants)
    x, i = operand("x", size), reduce_axis(size, "i")
    return operand.program(compute((), lambda: build.sum(x[i], i), name="out"))


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


def mean_of_rows(x: Tensor, name: str) -> Tensor:
    """The mean over the columns of a matrix."""
    *_, columns = x.shape
    j = reduce_axis(columns, "j")
    sums = compute(x.shape[:-1], lambda i: build.sum(x[i, j], j), name=f"{name}_sum")
    return compute(x.shape[:-1], lambda i: sums[i] / float(columns), name=name)
