"""ATen's functions of elements; activations stand in activations.py."""

from __future__ import annotations

from ....tensor import build
from ....tensor.build import select
from ....tensor.composites import is_negative
from ....tensor.dtype import DType
from ....tensor.expr import Expr
from ....tensor.program import Tensor
from ...functions import creation, elementwise, integers, shape
from ...functions.elementwise import compare, formula, logical, mapped, real
from ...functions.function import NotCovered
from ...functions.operands import Operand, floating, promoted
from .creation import number
from .registry import CONVERTERS, Missing, aten

_REAL = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sqrt", "rsqrt", "sigmoid", "reciprocal",
)  # fmt: skip
_COMPARED = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _register() -> None:
    for name in _REAL:
        CONVERTERS[f"{name}.default"] = lambda x, name=name: real(name, x)
    CONVERTERS["special_erfc.default"] = CONVERTERS["erfc.default"]
    CONVERTERS["special_expm1.default"] = CONVERTERS["expm1.default"]
    for short, name in _COMPARED.items():
        for kind in ("Tensor", "Scalar"):
            CONVERTERS[f"{short}.{kind}"] = lambda x, y, name=name: compare(name, x, y)
    for name in ("and", "or", "xor"):
        CONVERTERS[f"logical_{name}.default"] = lambda x, y, name=name: logical(name, x, y)
        for kind in ("Tensor", "Scalar"):
            CONVERTERS[f"bitwise_{name}.{kind}"] = lambda x, y, name=name: _bitwise(name, x, y)
            CONVERTERS[f"__{name}__.{kind}"] = CONVERTERS[f"bitwise_{name}.{kind}"]
    for name in ("floor", "ceil", "trunc"):
        CONVERTERS[f"{name}.default"] = lambda x, name=name: elementwise.rounding(name, x)


def _bitwise(name: str, x: Operand, y: Operand) -> Tensor:
    whole = promoted(x, y).is_integer
    return integers.bitwise(name, x, y) if whole else elementwise.bitwise(name, x, y)


_register()


@aten("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift.Scalar_Tensor",
      "__lshift__.Tensor", "__lshift__.Scalar")  # fmt: skip
def left_shift(x: Operand, y: Operand) -> Tensor:
    """The bits of x, y places higher"""
    return integers.shifted(x, y, left=True)


@aten("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift.Scalar_Tensor",
      "__rshift__.Tensor", "__rshift__.Scalar")  # fmt: skip
def right_shift(x: Operand, y: Operand) -> Tensor:
    """The bits of x, y places lower"""
    return integers.shifted(x, y, left=False)


@aten("add.Tensor", "add.Scalar")
def add(x: Operand, y: Operand, alpha: float = 1) -> Tensor:
    """x + alpha * y"""
    return elementwise.add(x, y, alpha)


@aten("sub.Tensor", "sub.Scalar")
def sub(x: Operand, y: Operand, alpha: float = 1) -> Tensor:
    """x - alpha * y"""
    return elementwise.subtract(x, y, alpha)


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(x: Operand, y: Operand, alpha: float = 1) -> Tensor:
    """y - alpha * x"""
    return elementwise.subtract(y, x, alpha)


@aten("mul.Tensor", "mul.Scalar")
def mul(x: Operand, y: Operand) -> Tensor:
    """x * y"""
    return elementwise.multiply(x, y)


@aten("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor")
def div(x: Operand, y: Operand, rounding_mode: str | None = None) -> Tensor:
    """x / y"""
    return elementwise.divide(x, y, rounding_mode)


@aten("floor_divide.default", "floor_divide.Scalar")
def floor_divide(x: Operand, y: Operand) -> Tensor:
    """x / y rounded down"""
    return elementwise.divide(x, y, "floor")


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(x: Operand, y: Operand) -> Tensor:
    """x - floor(x / y) * y"""
    return elementwise.remainder(x, y)


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(x: Operand, y: Operand) -> Tensor:
    """x - trunc(x / y) * y"""
    return elementwise.fmod(x, y)


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(x: Operand, y: Operand) -> Tensor:
    """x^y"""
    dtype = promoted(x, y)
    if dtype.is_integer and isinstance(y, Tensor):
        return integers.integer_power(x, y, dtype)
    return elementwise.power(x, y)


@aten("maximum.default", "max.other")
def maximum(x: Operand, y: Operand) -> Tensor:
    """The greater; NaN wins."""
    return mapped(build.maximum, x, y)


@aten("minimum.default", "min.other")
def minimum(x: Operand, y: Operand) -> Tensor:
    """The lesser; NaN wins."""
    return mapped(build.minimum, x, y)


@aten("fmax.default")
def fmax(x: Operand, y: Operand) -> Tensor:
    """The greater; NaN loses."""
    return mapped(lambda a, b: select(a.not_equal(a), b, select(b.not_equal(b), a, build.maximum(a, b))), x, y)


@aten("fmin.default")
def fmin(x: Operand, y: Operand) -> Tensor:
    """The lesser; NaN loses."""
    return mapped(lambda a, b: select(a.not_equal(a), b, select(b.not_equal(b), a, build.minimum(a, b))), x, y)


@aten("abs.default")
def absolute(x: Tensor) -> Tensor:
    """|x|"""
    return elementwise.absolute_value(x)


@aten("neg.default")
def negative(x: Tensor) -> Tensor:
    """-x"""
    return mapped(lambda a: -a, x)


@aten("positive.default", "alias.default", "clone.default", "detach.default", "lift_fresh_copy.default",
      "lift_fresh.default", "contiguous.default", "detach_.default")  # fmt: skip
def same(x: Tensor, **_: object) -> Tensor:
    """x"""
    return x


@aten("dropout.default", "feature_dropout.default", "alpha_dropout.default")
def dropout(x: Tensor, p: float, train: bool) -> Tensor:
    """x, outside of training."""
    if train and p > 0:
        raise NotCovered("random numbers: dropout in training; call module.eval()")
    return x


@aten("native_dropout.default")
def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Missing]:
    """x, outside of training."""
    return dropout(x, p, bool(train)), Missing("which elements dropout leaves")


@aten("sign.default", "sgn.default")
def sign(x: Tensor) -> Tensor:
    """1, 0 or -1; of NaN 0"""
    if not x.dtype.is_float:
        return elementwise.sign(x)
    return mapped(lambda a: select(a > 0, build.literal(1, a.dtype), select(a < 0, build.literal(-1, a.dtype), 0)), x)


@aten("square.default")
def square(x: Tensor) -> Tensor:
    """x * x"""
    return elementwise.power(x, 2)


@aten("round.default", "round.decimals")
def rounded(x: Tensor, decimals: int = 0) -> Tensor:
    """The nearest number of so many decimals, ties to even."""
    return elementwise.rounding("round", x, decimals)


@aten("frac.default")
def fraction(x: Tensor) -> Tensor:
    """x without its whole part"""
    return elementwise.subtract(x, elementwise.rounding("trunc", x))


@aten("logical_not.default")
def logical_not(x: Tensor) -> Tensor:
    """Whether x is 0"""
    return logical("not", x)


@aten("bitwise_not.default")
def bitwise_not(x: Tensor) -> Tensor:
    """The bits of x turned"""
    return elementwise.bitwise("not", x)


@aten("isnan.default")
def is_nan(x: Tensor) -> Tensor:
    """Whether x is NaN"""
    return formula("is_nan", x)


@aten("isinf.default")
def is_infinite(x: Tensor) -> Tensor:
    """Whether x is an infinity"""
    return formula("is_inf", x) if x.dtype.is_float else mapped(lambda a: a.not_equal(a), x)


@aten("isfinite.default")
def is_finite(x: Tensor) -> Tensor:
    """Whether x is neither"""
    return formula("is_finite", x) if x.dtype.is_float else mapped(lambda a: a.equal(a), x)


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(x: Operand, y: Operand) -> Tensor:
    """|x| with the sign of y"""
    return mapped(
        lambda a, b: build.absolute(a) * select(is_negative(b), build.literal(-1, b.dtype), 1),
        x, y, dtype=floating(promoted(x, y)),
    )  # fmt: skip


@aten("atan2.default")
def atan2(y: Operand, x: Operand) -> Tensor:
    """The angle of the point (x, y)"""
    return real("atan2", y, x)


@aten("hypot.default")
def hypot(x: Operand, y: Operand) -> Tensor:
    """sqrt(x^2 + y^2)"""
    return real("hypot", x, y)


@aten("logaddexp.default")
def logaddexp(x: Operand, y: Operand) -> Tensor:
    """log(exp(x) + exp(y))"""
    return real("logaddexp", x, y)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(condition: Tensor, x: Operand, y: Operand) -> Tensor:
    """x where the condition holds, else y"""
    return elementwise.where(condition, x, y)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """x but for the value where the mask holds"""
    return elementwise.cast(elementwise.where(mask, value, x), x.dtype)


@aten("clamp.default", "clamp.Tensor", "hardtanh.default")
def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """min(max(x, low), high)"""
    return elementwise.clamp(x, min, max)


CONVERTERS["hardtanh.default"] = lambda x, min_val=-1, max_val=1: elementwise.clamp(x, min_val, max_val)
CONVERTERS["clamp_min.default"] = CONVERTERS["clamp_min.Tensor"] = elementwise.clamp
CONVERTERS["clamp_max.default"] = CONVERTERS["clamp_max.Tensor"] = lambda x, max: elementwise.clamp(x, None, max)


@aten("addcmul.default")
def addcmul(x: Tensor, y: Operand, z: Operand, value: float = 1) -> Tensor:
    """x + value * y * z"""
    return elementwise.multiply_add(x, y, z, value)


@aten("addcdiv.default")
def addcdiv(x: Tensor, y: Operand, z: Operand, value: float = 1) -> Tensor:
    """x + value * y / z"""
    return elementwise.divide_add(x, y, z, value)


@aten("lerp.Scalar", "lerp.Tensor")
def lerp(x: Tensor, y: Tensor, weight: Operand) -> Tensor:
    """x + (y - x) * weight"""
    return elementwise.lerp(x, y, weight)


@aten("nan_to_num.default")
def nan_to_num(x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x without NaN and infinities"""
    return elementwise.nan_to_num(x, nan or 0.0, posinf, neginf)


@aten("_to_copy.default", "to.dtype")
def to_copy(x: Tensor, dtype: DType | None = None, **_: object) -> Tensor:
    """x in another dtype"""
    return x if dtype is None else elementwise.cast(x, dtype)


@aten("type_as.default")
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the dtype of another"""
    return elementwise.cast(x, other.dtype)


@aten("fill.Scalar", "fill.Tensor", "full_like.default")
def fill(x: Tensor, value: Operand, dtype: DType | None = None, **_: object) -> Tensor:
    """One number in the shape of x"""
    out = dtype or x.dtype
    if isinstance(value, Tensor):
        return elementwise.cast(shape.expand(value, x.shape), out)
    return creation.full(x.shape, number(value, out), out)


@aten("xlogy.Tensor")
def xlogy(x: Operand, y: Operand) -> Tensor:
    """x log(y), 0 where x is 0 and y is no NaN"""

    def body(a: Expr, b: Expr) -> Expr:
        return select(a.equal(0) & b.equal(b), 0, a * build.log(b))

    return mapped(body, x, y, dtype=promoted(x, y) if promoted(x, y).is_float else None)
