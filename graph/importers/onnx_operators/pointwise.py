"""ONNX's functions of elements: arithmetic, comparison, logic, types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from math import inf
from typing import Any

from ....tensor import build
from ....tensor.build import select
from ....tensor.dtype import boolean, f64
from ....tensor.expr import Expr
from ....tensor.program import Tensor
from ...functions import elementwise
from ...functions.elementwise import compare, formula, logical, mapped, real
from ...functions.function import NotCovered
from ...functions.integers import integer_power
from ...functions.operands import Operand
from .registry import CONVERTERS, Node, OnnxValue, onnx

_REAL = (
    "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Sqrt",
    "Sigmoid", "Tanh", "Softplus", "Softsign", "Mish", "Reciprocal",
)  # fmt: skip
_COMPARED = {
    "Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
}  # fmt: skip


def _each(build_one: Callable[..., Tensor], names: Iterable[tuple[str, str]], operands: bool = True) -> None:
    """Registers functions of a name and all operands, or of the first one."""
    for operator, name in names:

        def convert(node: Node, name: str = name) -> Tensor:
            return build_one(name, *(node.operands() if operands else [node.tensor(0)]))

        CONVERTERS[operator] = convert


_each(real, ((one, one.lower()) for one in _REAL), operands=False)
_each(elementwise.rounding, ((one, one.lower()) for one in ("Floor", "Ceil", "Round")), operands=False)
_each(compare, _COMPARED.items())
_each(logical, ((one, one.lower()) for one in ("And", "Or", "Xor")))


@onnx("Identity")
def identity(node: Node) -> OnnxValue:
    """x"""
    return node.given(0)


@onnx("Add")
def add(node: Node) -> Tensor:
    """x + y"""
    x, y = node.operands()
    return elementwise.add(x, y)


@onnx("Sub")
def sub(node: Node) -> Tensor:
    """x - y"""
    x, y = node.operands()
    return elementwise.subtract(x, y)


@onnx("Mul")
def mul(node: Node) -> Tensor:
    """x * y"""
    return elementwise.multiply(*node.operands())


@onnx("Div")
def div(node: Node) -> Tensor:
    """x / y; of integers rounded toward zero."""
    x, y = node.operands()
    whole = next(one for one in (x, y) if isinstance(one, Tensor)).dtype.is_integer
    return elementwise.divide(x, y, "trunc" if whole else None)


@onnx("Mod")
def mod(node: Node) -> Tensor:
    """What a division leaves: with the sign of the divisor, or of the dividend with fmod."""
    return mapped(_truncated if node.integer("fmod") else _floored, *node.operands())


def _truncated(a: Expr, b: Expr) -> Expr:
    """a itself where b is infinite."""
    left = a - elementwise.truncated_quotient(a, b) * b
    return select(build.absolute(b).equal(inf) & (build.absolute(a) < inf), a, left) if a.dtype.is_float else left


def _floored(a: Expr, b: Expr) -> Expr:
    """Gives, where b is infinite, a, or b if the signs differ."""
    if not a.dtype.is_float:
        return a % b
    endless = select((a < 0).not_equal(b < 0) & a.not_equal(0), b, a)
    return select(build.absolute(b).equal(inf) & (build.absolute(a) < inf), endless, a - build.floor(a / b) * b)


@onnx("Pow")
def power(node: Node) -> Tensor:
    """x^y in the dtype of x."""
    x, y = node.tensor(0), node.operand(1)
    exponent = y.dtype if isinstance(y, Tensor) else None
    if x.dtype.is_integer:
        if exponent is not None and exponent.is_integer:
            return integer_power(x, y, x.dtype)
        if exponent is not None or (isinstance(y, float) and y != int(y)):
            wide = elementwise.power(elementwise.cast(x, f64), y)
            return elementwise.cast(wide, x.dtype)
        return elementwise.power(x, int(y))  # type: ignore[arg-type]
    if isinstance(y, Tensor) and y.dtype != x.dtype:
        y = elementwise.cast(y, x.dtype)
    return elementwise.power(x, y)


@onnx("Max")
def maximum(node: Node) -> Tensor:
    """The greatest of all; NaN wins."""
    return _combined(node, lambda a, b: mapped(build.maximum, a, b))


@onnx("Min")
def minimum(node: Node) -> Tensor:
    """The least of all; NaN wins."""
    return _combined(node, lambda a, b: mapped(build.minimum, a, b))


@onnx("Sum")
def total(node: Node) -> Tensor:
    """All added up."""
    return _combined(node, elementwise.add)


@onnx("Mean")
def mean(node: Node) -> Tensor:
    """All added up, by their number."""
    return mapped(lambda v: v / float(len(node.inputs)), total(node))


def _combined(node: Node, combine: Any) -> Tensor:
    found: Operand = reduce(combine, node.operands()) if len(node.inputs) > 1 else node.tensor(0)
    assert isinstance(found, Tensor)
    return found


@onnx("Abs")
def absolute(node: Node) -> Tensor:
    """|x|"""
    x = node.tensor(0)
    return x if x.dtype.kind.value == "unsigned" else elementwise.absolute_value(x)


@onnx("Neg")
def negative(node: Node) -> Tensor:
    """-x"""
    return mapped(lambda a: -a, node.tensor(0))


@onnx("Sign")
def sign(node: Node) -> Tensor:
    """1, 0 or -1"""
    return elementwise.sign(node.tensor(0))


@onnx("Not")
def logical_not(node: Node) -> Tensor:
    """Whether x is false"""
    return logical("not", node.tensor(0))


@onnx("IsNaN")
def is_nan(node: Node) -> Tensor:
    """Whether x is NaN"""
    return formula("is_nan", node.tensor(0))


@onnx("IsInf")
def is_infinite(node: Node) -> Tensor:
    """Whether x is an infinity, of one sign or both"""
    above, below = node.integer("detect_positive", 1), node.integer("detect_negative", 1)

    def body(a: Expr) -> Expr:
        high = a.equal(inf) if above else a.not_equal(a) & a.equal(a)
        return high | a.equal(-inf) if below else high

    return mapped(body, node.tensor(0))


@onnx("Where")
def where(node: Node) -> Tensor:
    """x where the condition holds, else y"""
    x, y = node.operand(1), node.operand(2)
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        x = node.tensor(1)
    return elementwise.where(node.tensor(0), x, y)


@onnx("Clip")
def clip(node: Node) -> Tensor:
    """min(max(x, low), high)"""
    bounds = [node.operand(place) if node.has(place) else None for place in (1, 2)]
    return elementwise.clamp(node.tensor(0), *bounds)


@onnx("Cast")
def cast(node: Node) -> Tensor:
    """x in another dtype; strings and narrow types are not here."""
    return elementwise.cast(node.tensor(0), node.dtype("to"))


@onnx("CastLike")
def cast_like(node: Node) -> Tensor:
    """x in the dtype of another"""
    return elementwise.cast(node.tensor(0), node.dtype_of(1))


@onnx("Dropout")
def dropout(node: Node) -> tuple[OnnxValue, ...]:
    """x, and that all of it is kept, outside of training."""
    from ...functions.creation import full

    if node.has(2) and bool(node.known(2)) and node.number(1, 0.5) > 0:
        raise NotCovered("random numbers: dropout in training")
    kept = (full(node.shape(0), True, boolean),) if node.wants(1) else ()
    return node.given(0), *kept


@onnx("PRelu")
def prelu(node: Node) -> Tensor:
    """x where x > 0, else slope * x; the slope broadcasts."""
    return mapped(lambda a, slope: select(a > 0, a, a * slope), node.tensor(0), node.tensor(1))
