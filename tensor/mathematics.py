"""Entries of the table: functions of floats, and these functions of expressions for programs written in Python.

To add one: an entry here, and the code in a file of `codegen/math`. Tests name what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .expr import Expr, Operand, binary, call
from .language import FLOATS, MATHEMATICS, Array, ErrorSlope, Operator, Passed, Rounding, Signature, enter
from .oracle.errors import stepped, times

__all__ = [
    "ceil", "cos", "erf", "erfc", "exp", "exp2", "floor", "log", "log2", "power", "round", "rsqrt", "sigmoid", "sin", "sqrt",
    "tanh",
]  # fmt: skip

_FLOATS = Signature(FLOATS)


def _function(
    name: str, meaning: str, value: Callable[..., Array], slope: ErrorSlope, ulp: tuple[float, float], slots: float,
    monotonic: bool = False, vanishes: bool = False,
) -> Callable[[Expr], Expr]:  # fmt: skip
    """Enters a function of one value that rounds, and gives it as a function of expressions (language.py has the arguments)."""
    rounding = Rounding(slope, ulp, monotonic, vanishes)
    enter(Operator(name, 1, _FLOATS, value, None, rounding, slots, meaning=meaning), MATHEMATICS)
    return _applied(name, meaning)


def _whole_numbers(name: str, meaning: str, value: np.ufunc) -> Callable[[Expr], Expr]:
    """Enters a function that rounds to whole numbers, which are exact."""
    passed: Passed = lambda v, e: stepped(value, v[0], e[0])  # noqa: E731
    enter(Operator(name, 1, _FLOATS, value, passed, meaning=meaning), MATHEMATICS)
    return _applied(name, meaning)


def _applied(name: str, meaning: str) -> Callable[[Expr], Expr]:
    def apply(value: Expr) -> Expr:
        return call(name, value)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{meaning}, of floats."
    return apply


def _erf(x: Array) -> Array:
    from scipy.special import erf

    return np.asarray(erf(x))


def _erfc(x: Array) -> Array:
    """SciPy's is off, where it is small, by hundreds of units; exp(-x^2) exp(x^2) erfc(x) is not, x^2 being n^2 + (x - n)(x +
    n) with an n of so few digits that its square is exact."""
    from scipy.special import erfc, erfcx

    tail = np.clip(x, 0.5, 40.0)
    near = tail.astype(np.float32).astype(np.float64)
    power = np.exp(-near * near) * np.exp((near - tail) * (near + tail))
    return np.asarray(np.where(x > 0.5, power * erfcx(tail), erfc(x)))


def _sigmoid(x: Array) -> Array:
    """SciPy's is 0 from -710 on, where the truth is subnormal."""
    from scipy.special import expit

    return np.asarray(np.where(x < -40, np.exp(x), expit(x)))


def _bell(v: list[Array], r: Array, e: list[Array]) -> Array:
    """The derivative of erf, up to its sign that of erfc."""
    return np.asarray((2 / math.sqrt(math.pi)) * np.exp(-v[0] * v[0]) * e[0])


def _power_slope(v: list[Array], r: Array, e: list[Array]) -> Array:
    by_base = times(np.abs(v[1] / v[0]), e[0])
    return np.asarray(np.abs(r) * (by_base + times(np.abs(np.log(np.abs(v[0]))), e[1])))


exp = _function(
    "exp", "e to the power of the value", np.exp, lambda v, r, e: r * e[0],
    ulp=(2.0, 2.0), slots=12.0, monotonic=True, vanishes=True,
)  # fmt: skip
exp2 = _function(
    "exp2", "2 to the power of the value", np.exp2, lambda v, r, e: math.log(2) * r * e[0],
    ulp=(2.5, 2.5), slots=12.0, monotonic=True, vanishes=True,
)  # fmt: skip
log = _function(
    "log", "The natural logarithm", np.log, lambda v, r, e: e[0] / np.abs(v[0]),
    ulp=(1.0, 1.0), slots=21.0, monotonic=True,
)  # fmt: skip
log2 = _function(
    "log2", "The logarithm to the base 2", np.log2, lambda v, r, e: e[0] / (math.log(2) * np.abs(v[0])),
    ulp=(2.0, 2.0), slots=23.0, monotonic=True,
)  # fmt: skip
tanh = _function(
    "tanh", "The hyperbolic tangent", np.tanh, lambda v, r, e: (1 - r * r) * e[0],
    ulp=(6.5, 2.0), slots=13.0, monotonic=True,
)  # fmt: skip
erf = _function("erf", "The error function", _erf, _bell, ulp=(6.5, 2.0), slots=15.0, monotonic=True)
erfc = _function(
    "erfc", "1 - erf(x), with all digits where that is small", _erfc, _bell,
    ulp=(6.5, 9.0), slots=34.0, monotonic=True, vanishes=True,
)  # fmt: skip
sigmoid = _function(
    "sigmoid", "1 / (1 + exp(-x))", _sigmoid, lambda v, r, e: r * (1 - r) * e[0],
    ulp=(3.5, 3.5), slots=16.0, monotonic=True, vanishes=True,
)  # fmt: skip
sqrt = _function(  # near zero the derivative says nothing
    "sqrt", "The square root", np.sqrt, lambda v, r, e: np.fmin(e[0] / r, np.sqrt(e[0])), ulp=(0.5, 0.5), slots=10.0
)
rsqrt = _function(
    "rsqrt", "1 / sqrt(x)", lambda x: 1 / np.sqrt(x), lambda v, r, e: e[0] * r**3 / 2,
    ulp=(1.5, 1.5), slots=16.0, monotonic=True,
)  # fmt: skip
floor = _whole_numbers("floor", "The greatest integer not above", np.floor)
ceil = _whole_numbers("ceil", "The least integer not below", np.ceil)
round = _whole_numbers("round", "The nearest integer, ties to even", np.rint)
sin = _function("sin", "The sine", np.sin, lambda v, r, e: e[0], ulp=(2.0, 3.0), slots=32.0)
cos = _function("cos", "The cosine", np.cos, lambda v, r, e: e[0], ulp=(2.0, 3.0), slots=32.0)

enter(
    Operator(
        "pow", 2, _FLOATS, np.power, rounding=Rounding(_power_slope, ulp=(0.51, 3.0)), slots=150.0,
        meaning="The first value to the power of the second",
    ),
    MATHEMATICS,
)  # fmt: skip


def power(base: Operand, exponent: Operand) -> Expr:
    """base to the power of exponent, of floats."""
    return binary("pow", base, exponent)
