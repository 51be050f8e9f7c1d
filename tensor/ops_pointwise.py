"""Operators that compute each element from elements at the same place, broadcasting ones, and transposition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..common.errors import ArgumentError
from .arguments import Shape, Size
from .build import absolute, compute, erf, exp, maximum, minimum, sigmoid, sqrt, tanh
from .expr import Expr
from .operator import Operands, operator
from .program import Program


def gelu_of(x: Expr) -> Expr:
    """x times the normal distribution function of x."""
    return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1)


def _pointwise(name: str, operands: str, meaning: str, body: Callable[..., Expr]) -> None:
    """Registers a builder of y[...] = body(operands at ...)."""

    def build(
        size: Size | None = None, shape: Shape | None = None, dtype: str = "f32", constants: Sequence[str] = ()
    ) -> Program:
        if (size is None) == (shape is None):
            raise ArgumentError(f"{name} needs either size or shape", expected="size=1024 or shape=64x32")
        sizes = (size,) if size is not None else tuple(shape or ())
        operand = Operands(dtype, constants)
        tensors = [operand(letter, *sizes) for letter in operands]
        return operand.program(compute(sizes, lambda *i: body(*(t[i] for t in tensors)), name="out"))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"out[...] = {meaning}, over `size` elements or a `shape`."
    operator(build)


_pointwise("relu", "x", "max(x, 0)", lambda x: maximum(x, 0))
_pointwise("gelu", "x", "x * (1 + erf(x / sqrt(2))) / 2", gelu_of)
_pointwise("silu", "x", "x * sigmoid(x)", lambda x: x * sigmoid(x))
_pointwise("silu_add", "xy", "x * sigmoid(x) + y", lambda x, y: x * sigmoid(x) + y)
_pointwise("clip", "x", "min(max(x, -1), 1)", lambda x: minimum(maximum(x, -1), 1))
_pointwise("copy", "x", "x", lambda x: x)
_pointwise("abs", "x", "|x|", absolute)
_pointwise("exp", "x", "exp(x)", exp)
_pointwise("tanh", "x", "tanh(x)", tanh)
_pointwise("sigmoid", "x", "sigmoid(x)", sigmoid)
_pointwise("erf", "x", "erf(x)", erf)
_pointwise("sqrt", "x", "sqrt(x)", sqrt)
_pointwise("add", "xy", "x + y", lambda x, y: x + y)
_pointwise("sub", "xy", "x - y", lambda x, y: x - y)
_pointwise("mul", "xy", "x * y", lambda x, y: x * y)
_pointwise("div", "xy", "x / y", lambda x, y: x / y)
_pointwise("multiply_add", "xyz", "x * y + z", lambda x, y, z: x * y + z)


@operator
def bias_add(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = x + bias[columns]"""
    operand = Operands(dtype, constants)
    x, bias = operand("x", rows, columns), operand("bias", columns)
    return operand.program(compute((rows, columns), lambda i, j: x[i, j] + bias[j], name="out"))


@operator
def bias_relu(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = max(x + bias[columns], 0)"""
    operand = Operands(dtype, constants)
    x, bias = operand("x", rows, columns), operand("bias", columns)
    return operand.program(compute((rows, columns), lambda i, j: maximum(x[i, j] + bias[j], 0), name="out"))


@operator
def scale_rows(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = x * scale[rows]"""
    operand = Operands(dtype, constants)
    x, scale = operand("x", rows, columns), operand("scale", rows)
    return operand.program(compute((rows, columns), lambda i, j: x[i, j] * scale[i], name="out"))


@operator
def outer(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = x[rows] * y[columns]"""
    operand = Operands(dtype, constants)
    x, y = operand("x", rows), operand("y", columns)
    return operand.program(compute((rows, columns), lambda i, j: x[i] * y[j], name="out"))


@operator
def transpose(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[columns, rows] = x[rows, columns]"""
    operand = Operands(dtype, constants)
    x = operand("x", rows, columns)
    return operand.program(compute((columns, rows), lambda j, i: x[i, j], name="out"))
