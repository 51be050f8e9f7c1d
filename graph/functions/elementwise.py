"""Elementwise functions of tensors. Operands broadcast; tensors and numbers meet in a common dtype, as in torch."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...tensor import build
from ...tensor.build import absolute, compute, maximum, minimum, select
from ...tensor.dtype import DType, boolean, f64
from ...tensor.expr import Expr
from ...tensor.functions import truth
from ...tensor.ops.elementwise import FORMULAS
from ...tensor.precision import rounded_once
from ...tensor.program import Tensor
from .function import NotCovered, function
from .operands import Operand, broadcast_shape, element, floating, promoted, shape_of


@function
def mapped(body: Callable[..., Expr], *values: Operand, dtype: DType | None = None) -> Tensor:
    """body(an element of each operand) at each place; the operands are in `dtype`, the common one unless given."""
    inside = dtype or promoted(*values)
    shape = broadcast_shape(*map(shape_of, values))
    return compute(shape, lambda *i: rounded_once(body, *(element(value, i, inside) for value in values)))


def formula(name: str, *values: Operand, **numbers: float) -> Tensor:
    """A function that `tensor/ops` has under a name: "hard_swish", "atan2", "logical_and"."""
    return mapped(lambda *given: FORMULAS[name](*given, **numbers), *values)


def real(name: str, *values: Operand, **numbers: float) -> Tensor:
    """Works as `formula`, on real numbers: integers become float32."""
    return mapped(lambda *given: FORMULAS[name](*given, **numbers), *values, dtype=floating(promoted(*values)))


@function
def cast(x: Tensor, dtype: DType) -> Tensor:
    """x in another dtype; x itself where it has it."""
    return x if x.dtype == dtype else compute(x.shape, lambda *i: x[i].cast(dtype))


@function
def copy(x: Tensor) -> Tensor:
    """A stage with the elements of x."""
    return compute(x.shape, lambda *i: x[i])


def add(x: Operand, y: Operand, alpha: float = 1) -> Tensor:
    """x + alpha * y; of bool, whether one is true."""
    dtype = promoted(x, y)
    if dtype == boolean:
        return mapped(lambda a, b: a | b, x, y)
    return mapped(lambda a, b: a + (b if alpha == 1 else b * alpha), x, y)


def subtract(x: Operand, y: Operand, alpha: float = 1) -> Tensor:
    """x - alpha * y"""
    return mapped(lambda a, b: a - (b if alpha == 1 else b * alpha), x, y)


def multiply(x: Operand, y: Operand) -> Tensor:
    """x * y; of bool, whether both are true."""
    if promoted(x, y) == boolean:
        return mapped(lambda a, b: a & b, x, y)
    return mapped(lambda a, b: a * b, x, y)


def divide(x: Operand, y: Operand, rounding: str | None = None) -> Tensor:
    """x / y, of integers too; rounded down with "floor", and toward zero with "trunc"."""
    dtype = promoted(x, y)
    if rounding is None:
        return mapped(lambda a, b: a / b, x, y, dtype=floating(dtype))
    if rounding == "floor":
        return exactly(lambda a, b: build.floor(a / b) if dtype.is_float else a // b, x, y)
    return exactly(truncated_quotient, x, y)


def exactly(body: Callable[..., Expr], *values: Operand) -> Tensor:
    """Works as `mapped`, for functions that jump where a quotient is a whole number: floats are computed in float64, which is
    exact enough that the quotient of two narrower floats never falls on the wrong side of the jump."""
    dtype = promoted(*values)
    if not dtype.is_float:
        return mapped(body, *values)
    return mapped(lambda *given: body(*(value.cast(f64) for value in given)).cast(dtype), *values)


def truncated_quotient(a: Expr, b: Expr) -> Expr:
    """a / b rounded toward zero."""
    if a.dtype.is_float:
        return FORMULAS["trunc"](a / b)
    down = a // b
    return select(((a % b).not_equal(0)) & ((a < 0).not_equal(b < 0)), down + 1, down)


def remainder(x: Operand, y: Operand) -> Tensor:
    """x - floor(x / y) * y: the sign is that of y."""
    return exactly(lambda a, b: a - build.floor(a / b) * b if a.dtype.is_float else a % b, x, y)


def fmod(x: Operand, y: Operand) -> Tensor:
    """x - trunc(x / y) * y: the sign is that of x."""
    return exactly(lambda a, b: a - truncated_quotient(a, b) * b, x, y)


def power(x: Operand, y: Operand) -> Tensor:
    """x^y. Small whole exponents that are numbers are products; those of integers have to be numbers."""
    dtype = promoted(x, y)
    if not isinstance(y, Tensor) and isinstance(x, Tensor):
        if y == 0.5 and dtype.is_float:
            return mapped(build.sqrt, x, dtype=dtype)
        if y == -0.5 and dtype.is_float:
            return mapped(build.rsqrt, x, dtype=dtype)
        if math.isfinite(y) and y == int(y) and (0 < y <= 4 or (dtype.is_integer and 0 <= y <= 64)):
            return mapped(lambda a: _product(a, int(y)), x, dtype=dtype)
        if y == -1 and dtype.is_float:
            return mapped(lambda a: 1 / a, x, dtype=dtype)
    if not dtype.is_float:
        raise NotCovered("powers of integers by what is no number known beforehand", found=str(dtype))
    return mapped(build.power, x, y)


def _product(a: Expr, times: int) -> Expr:
    """a^times by squares."""
    if times == 0:
        return build.literal(1, a.dtype)
    if times == 1:
        return a
    half = _product(a, times // 2)
    return half * half if times % 2 == 0 else half * half * a


def compare(name: str, x: Operand, y: Operand) -> Tensor:
    """equal, not_equal, less, less_equal, greater or greater_equal."""
    return formula(name, x, y)


def logical(name: str, *values: Operand) -> Tensor:
    """and, or, xor or not, of bool; what is not 0 is true."""
    if name == "not":
        return mapped(lambda a: ~truth(a), *values)
    return formula(f"logical_{name}", *values)


def bitwise(name: str, *values: Operand) -> Tensor:
    """and, or, xor or not of bool. Of integers, `not` alone."""
    dtype = promoted(*values)
    if dtype == boolean:
        return logical(name, *values)
    if name == "not" and dtype.is_integer:
        return mapped(lambda a: -a - 1, *values)
    raise NotCovered(f"bitwise {name} of integers", found=str(dtype))


@function
def where(condition: Tensor, x: Operand, y: Operand) -> Tensor:
    """x where the condition holds, else y."""
    dtype = promoted(x, y)
    shape = broadcast_shape(condition.shape, shape_of(x), shape_of(y))
    return compute(
        shape,
        lambda *i: select(truth(element(condition, i, condition.dtype)), element(x, i, dtype), element(y, i, dtype)),
    )


def clamp(x: Tensor, low: Operand | None = None, high: Operand | None = None) -> Tensor:
    """min(max(x, low), high); NaN stays."""
    given = [bound for bound in (low, high) if bound is not None]

    def body(a: Expr, *bounds: Expr) -> Expr:
        rest = list(bounds)
        a = maximum(a, rest.pop(0)) if low is not None else a
        return minimum(a, rest.pop(0)) if high is not None else a

    return mapped(body, x, *given)


def absolute_value(x: Tensor) -> Tensor:
    """|x|"""
    return mapped(lambda a: a if a.dtype == boolean else absolute(a), x)


def sign(x: Tensor) -> Tensor:
    """1, 0 or -1; of NaN NaN, and of bool itself."""
    return copy(x) if x.dtype == boolean else formula("sign", x)


def rounding(name: str, x: Tensor, decimals: int = 0) -> Tensor:
    """floor, ceil, round (ties to even) or trunc; integers stay."""
    if not x.dtype.is_float:
        return copy(x)
    if not decimals:
        return formula(name, x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return mapped(lambda a: build.round(a * scale) / scale, x)
    return mapped(lambda a: build.round(a / scale) * scale, x)


def multiply_add(x: Operand, y: Operand, z: Operand, value: float = 1) -> Tensor:
    """x + value * y * z"""
    return mapped(lambda a, b, c: a + (b * c if value == 1 else b * c * value), x, y, z)


def divide_add(x: Operand, y: Operand, z: Operand, value: float = 1) -> Tensor:
    """x + value * y / z"""
    return mapped(lambda a, b, c: a + (b / c if value == 1 else b * value / c), x, y, z)


def lerp(x: Operand, y: Operand, weight: Operand) -> Tensor:
    """x + (y - x) * weight"""
    return formula("lerp", x, y, weight)


def nan_to_num(x: Tensor, nan: float = 0.0, high: float | None = None, low: float | None = None) -> Tensor:
    """x without NaN and infinities; these become the greatest and the least number unless given."""
    most = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}
    if not x.dtype.is_float:
        return copy(x)
    above, below = most[x.dtype.name] if high is None else high, -most[x.dtype.name] if low is None else low

    def body(a: Expr) -> Expr:
        known = select(a.not_equal(a), build.literal(nan, a.dtype), a)
        return select(a.equal(math.inf), build.literal(above, a.dtype),
                      select(a.equal(-math.inf), build.literal(below, a.dtype), known))  # fmt: skip

    return mapped(body, x)
