"""Operators that compute each element from elements at the same place: arithmetic, functions, comparisons, logic."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

from .. import build, composites
from ..build import absolute, compute, exp, literal, log, maximum, minimum, select
from ..expr import Expr
from ..functions import truth
from ..program import Program
from .arguments import Shape, Size
from .elementwise import elementwise, sizes_of
from .operator import Operands, operator


def _sign(x: Expr) -> Expr:
    return select(x > 0, 1, select(x < 0, -1, x))


def _truncated(x: Expr) -> Expr:
    return select(x < 0, build.ceil(x), build.floor(x))


def _is_infinite(x: Expr) -> Expr:
    return absolute(x).equal(math.inf)


def _composite(name: str, operands: str, meaning: str, body: Callable[..., Expr]) -> None:
    """An operator of what composites.py has; how it is computed is said there."""
    elementwise(name, operands, meaning, body, more=inspect.cleandoc(body.__doc__ or ""))


elementwise("copy", "x", "x", lambda x: x)
elementwise("neg", "x", "-x", lambda x: -x)
elementwise("abs", "x", "|x|", absolute)
elementwise("sign", "x", "1, 0 or -1, as x is above, at or below 0", _sign)
elementwise("square", "x", "x * x", lambda x: x * x)
elementwise("reciprocal", "x", "1 / x", lambda x: 1 / x)
elementwise("sqrt", "x", "sqrt(x)", build.sqrt)
elementwise("rsqrt", "x", "1 / sqrt(x)", build.rsqrt)
elementwise("exp", "x", "exp(x)", exp)
elementwise("exp2", "x", "2^x", build.exp2)
_composite("expm1", "x", "exp(x) - 1", composites.expm1)
elementwise("log", "x", "log(x)", log)
elementwise("log2", "x", "log(x) / log(2)", build.log2)
elementwise("log10", "x", "log(x) / log(10)", lambda x: log(x) * (1 / math.log(10)))
_composite("log1p", "x", "log(1 + x)", composites.log1p)
elementwise("sin", "x", "sin(x)", build.sin)
elementwise("cos", "x", "cos(x)", build.cos)
elementwise("tan", "x", "sin(x) / cos(x)", lambda x: build.sin(x) / build.cos(x))
_composite("asin", "x", "the angle in [-pi/2, pi/2] whose sine is x", composites.asin)
_composite("acos", "x", "the angle in [0, pi] whose cosine is x", composites.acos)
_composite("atan", "x", "the angle in [-pi/2, pi/2] whose tangent is x", composites.atan)
_composite("atan2", "yx", "the angle in [-pi, pi] of the point (x, y)", composites.atan2)
_composite("sinh", "x", "(exp(x) - exp(-x)) / 2", composites.sinh)
_composite("cosh", "x", "(exp(x) + exp(-x)) / 2", composites.cosh)
elementwise("tanh", "x", "tanh(x)", build.tanh)
_composite("asinh", "x", "log(x + sqrt(x^2 + 1))", composites.asinh)
_composite("acosh", "x", "log(x + sqrt(x^2 - 1))", composites.acosh)
_composite("atanh", "x", "log((1 + x) / (1 - x)) / 2", composites.atanh)
elementwise("erf", "x", "erf(x)", build.erf)
elementwise("erfc", "x", "1 - erf(x)", build.erfc)
elementwise("floor", "x", "the greatest integer <= x", build.floor)
elementwise("ceil", "x", "the least integer >= x", build.ceil)
elementwise("round", "x", "the integer nearest to x, ties to even", build.round)
elementwise("trunc", "x", "x without its fraction", _truncated)
elementwise("clip", "x", "min(max(x, low), high)", lambda x, low, high: minimum(maximum(x, low), high),
            {"low": -1, "high": 1})  # fmt: skip

elementwise("add", "xy", "x + y", lambda x, y: x + y)
elementwise("sub", "xy", "x - y", lambda x, y: x - y)
elementwise("mul", "xy", "x * y", lambda x, y: x * y)
elementwise("div", "xy", "x / y", lambda x, y: x / y)
elementwise("floordiv", "xy", "floor(x / y), of integers; y = 0 gives 0",
            lambda x, y: x // y, dtype="i32", more="Unlike in ONNX and C, quotients are rounded down.")  # fmt: skip
elementwise("mod", "xy", "x - floor(x / y) * y, of integers; y = 0 gives 0",
            lambda x, y: x % y, dtype="i32", more="Unlike in C, and as in NumPy, the sign is that of y.")  # fmt: skip
elementwise("pow", "xy", "x^y", build.power)
_composite("hypot", "xy", "sqrt(x^2 + y^2)", composites.hypot)
_composite("logaddexp", "xy", "log(exp(x) + exp(y))", composites.logaddexp)
elementwise("maximum", "xy", "max(x, y); NaN wins", maximum)
elementwise("minimum", "xy", "min(x, y); NaN wins", minimum)
elementwise("squared_difference", "xy", "(x - y)^2", lambda x, y: (x - y) * (x - y))
elementwise("multiply_add", "xyz", "x * y + z", lambda x, y, z: x * y + z)
elementwise("lerp", "xyt", "x + (y - x) * t", lambda x, y, t: x + (y - x) * t)
elementwise("where", "cxy", "x where c, else y", select)

elementwise("equal", "xy", "x == y", lambda x, y: x.equal(y))
elementwise("not_equal", "xy", "x != y", lambda x, y: x.not_equal(y))
elementwise("less", "xy", "x < y", lambda x, y: x < y)
elementwise("less_equal", "xy", "x <= y", lambda x, y: x <= y)
elementwise("greater", "xy", "x > y", lambda x, y: x > y)
elementwise("greater_equal", "xy", "x >= y", lambda x, y: x >= y)
elementwise("is_nan", "x", "whether x is NaN", lambda x: x.not_equal(x))
elementwise("is_inf", "x", "whether x is inf or -inf", _is_infinite)
elementwise("is_finite", "x", "whether x is neither NaN nor an infinity", lambda x: absolute(x) < math.inf)
elementwise("logical_and", "xy", "x and y, what is not 0 being true",
            lambda x, y: truth(x) & truth(y), dtype="bool")  # fmt: skip
elementwise("logical_or", "xy", "x or y, what is not 0 being true",
            lambda x, y: truth(x) | truth(y), dtype="bool")  # fmt: skip
elementwise("logical_xor", "xy", "x or y, not both, what is not 0 being true",
            lambda x, y: truth(x).not_equal(truth(y)), dtype="bool")  # fmt: skip
elementwise("logical_not", "x", "not x, what is not 0 being true", lambda x: ~truth(x), dtype="bool")


@operator
def cast(
    size: Size | None = None, shape: Shape | None = None, to: str = "f64", dtype: str = "f32",
    constants: Sequence[str] = (),
) -> Program:  # fmt: skip
    """out[...] = x converted to the dtype `to`; float to integer rounds toward zero. Over `size` elements or a `shape`."""
    operand, kind = Operands(dtype, constants), Operands(to, ()).dtype
    x = operand("x", *sizes_of("cast", size, shape))
    return operand.program(compute(x.shape, lambda *i: x[i].cast(kind), name="out"))


@operator
def fill(
    size: Size | None = None, shape: Shape | None = None, value: float = 0.0, dtype: str = "f32",
) -> Program:  # fmt: skip
    """out[...] = value, over `size` elements or a `shape`. There is no operand."""
    operand = Operands(dtype, ())
    sizes = sizes_of("fill", size, shape)
    return operand.program(compute(sizes, lambda *i: literal(value, operand.dtype), name="out"))


@operator
def bias_add(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = x + bias[columns]"""
    operand = Operands(dtype, constants)
    x, bias = operand("x", rows, columns), operand("bias", columns)
    return operand.program(compute((rows, columns), lambda i, j: x[i, j] + bias[j], name="out"))


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
