"""Activations of neural networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..activations import gelu, relu, silu
from ..build import absolute, compute, maximum, minimum, select, sigmoid, tanh
from ..composites import expm1, mish, softplus, vanishing
from ..expr import Expr
from ..precision import precise
from ..program import Program
from .arguments import Size
from .elementwise import elementwise
from .operator import Operands, operator

# Klambauer et al., Self-normalizing neural networks, 2017
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _gelu_tanh(x: Expr) -> Expr:
    """(1 + tanh(u)) / 2 is sigmoid(2 u), in which nothing cancels."""
    twice = 2 * math.sqrt(2 / math.pi)
    return vanishing(x) * sigmoid(x * (x * x * (0.044715 * twice) + twice))


def _softsign(x: Expr) -> Expr:
    x = minimum(maximum(x, -1e30), 1e30)  # there it is 1 to the last digit
    return x / (absolute(x) + 1)


def _hard_sigmoid(x: Expr) -> Expr:
    return minimum(maximum(x + 3, 0), 6) * (1 / 6)


def _elu(x: Expr, alpha: float) -> Expr:
    return select(x > 0, x, expm1(minimum(x, 0)) * alpha)


_LIMIT = "Unlike torch's, which is NaN there, it is -0 at -inf."

elementwise("relu", "x", "max(x, 0)", relu)
elementwise("relu6", "x", "min(max(x, 0), 6)", lambda x: minimum(maximum(x, 0), 6))
elementwise("leaky_relu", "x", "x where x > 0, else alpha * x", lambda x, alpha: select(x > 0, x, x * alpha),
            {"alpha": 0.01})  # fmt: skip
elementwise("elu", "x", "x where x > 0, else alpha * (exp(x) - 1)", _elu, {"alpha": 1.0})
elementwise("celu", "x", "max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))",
            lambda x, alpha: maximum(x, 0) + expm1(minimum(x, 0) * (1 / alpha)) * alpha, {"alpha": 1.0})  # fmt: skip
elementwise("selu", "x", "1.0507 * elu(x, 1.6733)", lambda x: _elu(x, _SELU_ALPHA) * _SELU_SCALE)
elementwise("gelu", "x", "x * (1 + erf(x / sqrt(2))) / 2", gelu, more=f"Small results keep their digits. {_LIMIT}")
elementwise("gelu_tanh", "x", "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2", _gelu_tanh, more=_LIMIT)
elementwise("sigmoid", "x", "1 / (1 + exp(-x))", sigmoid)
elementwise("log_sigmoid", "x", "-log(1 + exp(-x))", lambda x: -softplus(-x))
elementwise("silu", "x", "x * sigmoid(x)", silu, more=_LIMIT)
elementwise("silu_add", "xy", "x * sigmoid(x) + y", lambda x, y: silu(x) + y)
elementwise("mish", "x", "x * tanh(log(1 + exp(x)))", mish, more=_LIMIT)
elementwise("softplus", "x", "log(1 + exp(x))", softplus)
elementwise("softsign", "x", "x / (1 + |x|)", _softsign,
            more="Unlike torch's, it is 1 and -1 at the infinities.")  # fmt: skip
elementwise("hard_sigmoid", "x", "min(max(x / 6 + 1 / 2, 0), 1)", _hard_sigmoid,
            more="Unlike ONNX's by default, whose slope is 1 / 5.")  # fmt: skip
elementwise("hard_swish", "x", "x * hard_sigmoid(x)", lambda x: maximum(x, -3) * _hard_sigmoid(x), more=_LIMIT)
elementwise("hard_tanh", "x", "min(max(x, low), high)", lambda x, low, high: minimum(maximum(x, low), high),
            {"low": -1.0, "high": 1.0})  # fmt: skip
elementwise("tanh_shrink", "x", "x - tanh(x)", lambda x: x - tanh(x))
elementwise("hard_shrink", "x", "x where |x| > limit, else 0", lambda x, limit: select(absolute(x) <= limit, 0, x),
            {"limit": 0.5})  # fmt: skip
elementwise("soft_shrink", "x", "x - min(max(x, -limit), limit)",
            lambda x, limit: x - minimum(maximum(x, -limit), limit), {"limit": 0.5})  # fmt: skip


@operator
def prelu(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = x where x > 0, else alpha[columns] * x"""
    operand = Operands(dtype, constants)
    x, alpha = operand("x", rows, columns), operand("alpha", columns)
    return operand.program(
        compute((rows, columns), lambda i, j: select(x[i, j] > 0, x[i, j], x[i, j] * alpha[j]), name="out")
    )


@operator
def bias_relu(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = max(x + bias[columns], 0)"""
    operand = Operands(dtype, constants)
    x, bias = operand("x", rows, columns), operand("bias", columns)
    return operand.program(compute((rows, columns), lambda i, j: maximum(x[i, j] + bias[j], 0), name="out"))


@operator
def bias_gelu(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = gelu(x + bias[columns])"""
    operand = Operands(dtype, constants)
    x, bias = operand("x", rows, columns), operand("bias", columns)
    sums = compute((rows, columns), lambda i, j: precise(x[i, j]) + precise(bias[j]), name="sums")
    return operand.program(compute((rows, columns), lambda i, j: gelu(sums[i, j]).cast(operand.dtype), name="out"))


@operator
def glu(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = x[i, j] * sigmoid(x[i, columns + j]), x being [rows, 2 * columns]"""
    return _gated(Operands(dtype, constants), rows, columns, sigmoid)


@operator
def swiglu(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = x[i, j] * silu(x[i, columns + j]), x being [rows, 2 * columns]"""
    return _gated(Operands(dtype, constants), rows, columns, silu)


@operator
def geglu(rows: Size, columns: Size, dtype: str = "f32", constants: Sequence[str] = ()) -> Program:
    """out[rows, columns] = x[i, j] * gelu(x[i, columns + j]), x being [rows, 2 * columns]"""
    return _gated(Operands(dtype, constants), rows, columns, gelu)


def _gated(operand: Operands, rows: int, columns: int, gate: Callable[[Expr], Expr]) -> Program:
    x = operand("x", rows, 2 * columns)

    def element(i: Expr, j: Expr) -> Expr:
        return (precise(x[i, j]) * gate(precise(x[i, j + columns]))).cast(operand.dtype)

    return operand.program(compute((rows, columns), element, name="out"))
