"""tanh and erf as rational functions of the square of the argument (tests/vector_math/fit.py makes the tables)."""

from __future__ import annotations

from .math_body import Body

# tanh(x) = x P(x^2) / Q(x^2) up to 9.015625, and erf(x) up to 3.9296875; all coefficients are positive, so nothing cancels
TANH_P_F32 = (
    1.0,
    0.1338292956352234,
    0.0034977474715560675,
    2.0640662114601582e-05,
    1.3391153075303919e-08,
)
TANH_Q_F32 = (
    1.0,
    0.46716251969337463,
    0.025885459035634995,
    0.000328899419400841,
    7.793023542035371e-07,
)
ERF_P_F32 = (
    1.650144338607788,
    0.27823904156684875,
    0.07709935307502747,
    0.005494038108736277,
    0.0004156676877755672,
    2.9911648198321927e-06,
)
ERF_Q_F32 = (
    1.46240234375,
    0.7340497970581055,
    0.16677427291870117,
    0.02186637558043003,
    0.0016957382904365659,
    5.558447082876228e-05,
)


def tanh(b: Body, x: str) -> str:
    """Hyperbolic tangent. Error <= 6.5 ulp. Never beyond +-1, which it reaches at infinity; tanh(-0) = -0."""
    return _odd_rational(b, x, TANH_P_F32, TANH_Q_F32, 9.015625)


def erf(b: Body, x: str) -> str:
    """Error function. Error <= 6.5 ulp. Never beyond +-1, which it reaches at infinity; erf(-0) = -0."""
    return _odd_rational(b, x, ERF_P_F32, ERF_Q_F32, 3.9296875)


def _odd_rational(b: Body, x: str, top: tuple[float, ...], bottom: tuple[float, ...], limit: float) -> str:
    """x P(x^2) / Q(x^2) with x held within +-limit and the result within +-1."""
    x = b.at_least(b.at_most(x, limit), -limit)
    square = b.mul(x, x)
    ratio = b.div(b.mul(x, b.horner(top, square)), b.horner(bottom, square))
    return b.at_least(b.at_most(ratio, 1.0), -1.0)


def rsqrt(b: Body, x: str) -> str:
    """1 / sqrt(x). Error <= 1.5 ulp. rsqrt(+-0) = +-inf, of inf 0, of a negative number NaN.

    Two correctly rounded instructions: next to memory traffic they cost nothing, and they need no special cases.
    """
    return b.div(b.constant(1.0), b.call("sqrt", x))
