"""Functions that the language lacks, made of those it has, without the loss of digits of their textbook formulas.

At zeros of both signs, infinities, NaN and the ends of their domains they are what C and NumPy say.

Errors are given in units of the result's last place (ulp), when each operation of the processor rounds by itself or fuses a
product with a sum. float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .dtype import f64
from .expr import Expr
from .functions import absolute, literal, maximum, minimum, select
from .mathematics import exp, log, sqrt, tanh
from .precision import wide

# Moshier, Cephes mathematical library (netlib.org/cephes), atan.c: (atan(x) - x) / x^3 as a rational function of x^2, highest
# order first. It serves every dtype, so that a program of float32 is the arc tangent itself and not one near it.
_ATAN_P = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_ATAN_Q = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)

# The same where x <= 1, within 2.2e-17 of the arc tangent: the rational function that agrees with it at the 12 Chebyshev nodes
# of x^2 in [0, 1]. No sum of coordinates is needed, which may overflow.
_FLAT_P = (
    -0.9024525862982413,
    -28.6344514670043,
    -230.9790943899718,
    -709.2810809323058,
    -905.3726290655958,
    -404.44958201411697,
)
_FLAT_Q = (
    1.0,
    39.96465648522898,
    423.8789826719409,
    1825.9201295139483,
    3674.312918256491,
    3444.127134821938,
    1213.3487460423516,
)

_LARGE = 2.0**28  # from here on x^2 + 1 is x^2 and 1 / x is below half a unit of log(x), in float64 too


def _widened(function: Callable[..., Expr]) -> Callable[..., Expr]:
    """Makes of a function of elements of one dtype one that computes narrow floats in float32."""

    def computed(*values: Expr) -> Expr:
        return function(*map(wide, values)).cast(values[0].dtype)

    computed.__name__ = computed.__qualname__ = function.__name__
    computed.__doc__ = function.__doc__
    return computed


@_widened
def expm1(x: Expr) -> Expr:
    """exp(x) - 1. Error <= 5 ulp: where |x| < 1 it is 2 t / (1 - t), t = tanh(x / 2), in which nothing cancels."""
    t = tanh(x * 0.5)
    return select(absolute(x) < 1, (t + t) / (1 - t), exp(x) - 1)


@_widened
def log1p(x: Expr) -> Expr:
    """log(1 + x). Error <= 3 ulp.

    With u = 1 + x as it is rounded, log(u) / (u - 1) is right and differs little from log(1 + x) / x (Kahan; Goldberg, What
    every computer scientist should know about floating-point arithmetic, 1991, theorem 4).
    """
    u = x + 1
    return select(u.equal(1), x, log(u) * select(x < 1, x / (u - 1), 1))


@_widened
def softplus(x: Expr) -> Expr:
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)): without overflow, and exp(x) where that is all there is. Error <= 4
    ulp."""
    return maximum(x, 0) + log1p(exp(-absolute(x)))


@_widened
def mish(x: Expr) -> Expr:
    """x tanh(log(1 + exp(x))) as x n / (n + 2), n = w (w + 2), w = exp(x): no logarithm, and nothing cancels. Error <=
    5 ulp; -0 at -inf."""
    w = exp(minimum(x, 20))  # there n / (n + 2) is 1 to the last digit
    n = w * (w + 2)
    return vanishing(x) * (n / (n + 2))


@_widened
def sinh(x: Expr) -> Expr:
    """(exp(x) - exp(-x)) / 2. Error <= 6 ulp: where |x| < 1 it is 2 t / (1 - t^2), t = tanh(x / 2)."""
    a = absolute(x)
    t, h = tanh(x * 0.5), _half_power(a)
    near = (t + t) / ((1 - t) * (1 + t))
    return select(a < 1, near, _signed(x, h - 0.25 / h))


@_widened
def cosh(x: Expr) -> Expr:
    """(exp(x) + exp(-x)) / 2. Error <= 5 ulp."""
    h = _half_power(absolute(x))
    return h + 0.25 / h


def _half_power(a: Expr) -> Expr:
    """exp(a) / 2 of a >= 0, which overflows no earlier than it must. a - 1 is exact from 1/2 on."""
    return exp(a - 1) * (math.e / 2)


@_widened
def hypot(x: Expr, y: Expr) -> Expr:
    """sqrt(x^2 + y^2) as a sqrt(1 + (b / a)^2) of the greater a and the lesser b, which does not overflow. Error <= 3 ulp; inf
    wins, also against NaN."""
    a, b = absolute(x), absolute(y)
    great, least = _greater(a, b), literal(2.0 ** (-1074 if x.dtype == f64 else -149), x.dtype)
    ordinary = great < math.inf  # where `great` is NaN, b is
    size = select(ordinary, great, select(a.equal(math.inf), a, b))
    ratio = select(ordinary, _lesser(a, b) / _greater(least, great), 1)  # of zeros 0
    return size * sqrt(ratio * ratio + 1)


@_widened
def logaddexp(x: Expr, y: Expr) -> Expr:
    """log(exp(x) + exp(y)) as max(x, y) + log1p(exp(-|x - y|)): equal infinities stay what they are. Where x
    and y cancel, the error is that of the greater."""
    away = select(x.equal(y), 0, absolute(x - y))
    return maximum(x, y) + log1p(exp(-away))


@_widened
def asinh(x: Expr) -> Expr:
    """log(x + sqrt(x^2 + 1)) as log1p(a + a^2 / (1 + sqrt(a^2 + 1))), a = |x|, with the sign of x. Error <= 4 ulp."""
    a = absolute(x)
    square = a * a
    near = log1p(a + square / (sqrt(square + 1) + 1))
    return _signed(x, select(a < _LARGE, near, log(a) + math.log(2)))


@_widened
def acosh(x: Expr) -> Expr:
    """log(x + sqrt(x^2 - 1)) as log1p(t + sqrt(t (x + 1))), t = x - 1. Error <= 4 ulp; NaN below 1."""
    t = x - 1
    near = log1p(t + sqrt(t * (x + 1)))
    return select(x < 1, literal(math.nan, x.dtype), select(x < _LARGE, near, log(x) + math.log(2)))


@_widened
def atanh(x: Expr) -> Expr:
    """log((1 + x) / (1 - x)) / 2 as log1p(2 a / (1 - a)) / 2, a = |x|, with the sign of x. Error <= 4 ulp."""
    a = absolute(x)
    return _signed(x, log1p((a + a) / (1 - a)) * 0.5)


@_widened
def atan(x: Expr) -> Expr:
    """The angle in [-pi/2, pi/2] whose tangent is x. Error <= 3 ulp."""
    a = absolute(x)
    return _signed(x, _angle(a, literal(1, a.dtype)))


@_widened
def asin(x: Expr) -> Expr:
    """The angle in [-pi/2, pi/2] whose sine is x: that of the tangent x / sqrt((1 - x)(1 + x)). Error <= 4 ulp; NaN where
    |x| > 1."""
    return _signed(x, _angle(absolute(x), sqrt((1 - x) * (1 + x))))


@_widened
def acos(x: Expr) -> Expr:
    """The angle in [0, pi] whose cosine is x: that of the tangent sqrt((1 - x)(1 + x)) / x. Error <= 4 ulp; NaN where
    |x| > 1."""
    angle = _angle(sqrt((1 - x) * (1 + x)), absolute(x))
    return _mirrored(x < 0, angle)


@_widened
def atan2(y: Expr, x: Expr) -> Expr:
    """The angle in [-pi, pi] of the point (x, y). Error <= 4 ulp. Zeros have signs: atan2(-0, -1) is -pi."""
    a, b = absolute(y), absolute(x)
    both = select(a > 0, literal(1, a.dtype), 0)  # two zeros or infinities have no quotient
    ratio = select(a.equal(b), both, _lesser(a, b) / _greater(a, b))
    z = ratio * ratio
    flat = ratio * z * (_polynomial(_FLAT_P, z) / _polynomial(_FLAT_Q, z)) + ratio
    return _signed(y, _mirrored(is_negative(x), _mirrored(a > b, flat, math.pi / 2)))


def _angle(n: Expr, d: Expr) -> Expr:
    """The angle in [0, pi/2] whose tangent is n / d, of numbers >= 0: Cephes' reduction by pi/4 and pi/2, with one quotient."""
    steep, middle = n > d * math.tan(3 * math.pi / 8), n > d * math.tan(math.pi / 8)
    above = select(steep, -d, select(middle, n - d, n))
    below = select(steep, n, select(middle, n + d, d))
    base = select(steep, math.pi / 2, select(middle, literal(math.pi / 4, n.dtype), 0))
    x = above / below
    z = x * x
    return base + (x * z * (_polynomial(_ATAN_P, z) / _polynomial(_ATAN_Q, z)) + x)


def _polynomial(coefficients: tuple[float, ...], z: Expr) -> Expr:
    """Evaluates a polynomial by Horner's rule; the coefficient of the highest order comes first."""
    total = z * coefficients[0] if coefficients[0] != 1 else z
    for c in coefficients[1:-1]:
        total = (total + c) * z
    return total + coefficients[-1]


def _signed(x: Expr, value: Expr) -> Expr:
    """`value` with the sign of x, of -0 too. It stands there once: an expression is a tree."""
    return value * select(is_negative(x), literal(-1, x.dtype), 1)


def _mirrored(over: Expr, angle: Expr, most: float = math.pi) -> Expr:
    """Gives the angle, or `most` less the angle where the condition holds."""
    return angle * select(over, literal(-1, angle.dtype), 1) + select(over, literal(most, angle.dtype), 0)


def _greater(a: Expr, b: Expr) -> Expr:
    """The greater, for a quotient with the lesser: of a number and NaN either may be either, and both need no case for NaN."""
    return select(a > b, a, b)


def _lesser(a: Expr, b: Expr) -> Expr:
    """Gives the other one of the two that `_greater` chooses from."""
    return select(a > b, b, a)


def is_negative(x: Expr) -> Expr:
    """Tells whether the sign of x is set, as that of -0 is; false for NaN."""
    return select(x.equal(0), 1 / x, x) < 0


def vanishing(x: Expr) -> Expr:
    """A factor x whose product with what has long become 0, far out on the negative side, is 0 at -inf as well."""
    return maximum(x, -1000)
