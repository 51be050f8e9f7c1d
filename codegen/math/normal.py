"""gelu: x times the normal distribution function. tests/helpers/vector_math/fit.py makes the tables."""

from __future__ import annotations

from .body import Body, Function
from .exponential import EXP_F64, inverse_power, rounded_power
from .rational import ERFCX_P_F64, ERFCX_Q_F64

# 2^r K on [-1/2, 1/2], K being the first of them
EXP2_SCALED_F32 = (
    0.39884695410728455,
    0.27645954489707947,
    0.09581148624420166,
    0.022138848900794983,
    0.0038590605836361647,
    0.0005295295850373805,
)
# K P(z) / Q(z) = exp(z^2 / 2) (1 - normal distribution function of z) from 0 to 14.5; both lead with 1, which costs no product
NORMAL_P_F32 = (
    32.999351501464844,
    22.9741268157959,
    7.361891269683838,
    1.0,
)
NORMAL_Q_F32 = (
    26.323381423950195,
    39.3292121887207,
    24.092426300048828,
    7.351664066314697,
    1.0,
)
MINUS_HALF_LOG2_E_F32 = -0.7213475108146667
LEAST = 13.146245956420898  # of f32, up to which z times the tail is a normal number
VANISHED = (14.5, 38.625)  # of f32 and f64: x times the tail is below half of the least denormal number


def gelu(b: Body, x: str) -> str:
    """x times the normal distribution function of x. Error <= 10 ulp, 10 + x^2 ulp of negative x. Of -inf -0, of inf inf.

    max(x, 0) - z tail(z), z = |x|: on the left the difference is its second part alone, to all its digits, and on the right
    the digits that the tail may lack do not count. So no choice between the two is left, and the rounding of z^2 may stay.
    Where powers are scaled, z times the tail is 0 instead of a subnormal number, as in `exp`.
    """
    z = b.at_most(b.call("fabs", x), VANISHED[0 if b.single else 1])
    factor, ratio = _scaled_tail(b, z) if b.scales else (z, _tail(b, z))
    # -0 and not 0: so what vanishes on the left, and the result at -0, are -0
    return b.muladd(b.emit(f"fneg {b.type} {factor}"), ratio, b.at_least(x, -0.0))


def _scaled_tail(b: Body, z: str) -> tuple[str, str]:
    """Two factors of z tail(z) in f32, where an instruction multiplies by 2^n; the first is 0 beyond LEAST."""
    square = b.mul(z, z)
    log2_e = b.constant(MINUS_HALF_LOG2_E_F32)
    n = b.call("roundeven", b.mul(square, log2_e))
    r = b.muladd(square, log2_e, b.emit(f"fneg {b.type} {n}"))
    above, below = _ratio(b, z)
    where = b.compare("ule", z, b.constant(LEAST))
    return b.scale(b.mul(z, b.horner(EXP2_SCALED_F32, r)), n, where), b.div(above, below)


def _tail(b: Body, z: str) -> str:
    """1 - the normal distribution function of z: e^(-z^2 / 2) P / Q with e^(-z^2 / 2) = p 2^-m, as p P / (Q 2^m).

    p and 2^m are taken 2^-48 (2^-128) times, so that no factor leaves the normal numbers. Errors grow with z^2.
    """
    square = b.mul(z, z)
    shift = 48 if b.single else 128
    if b.single:
        m, power = rounded_power(b, square, -MINUS_HALF_LOG2_E_F32, shift)
        r = b.muladd(square, b.constant(MINUS_HALF_LOG2_E_F32), m)
        scaled: tuple[float, ...] = EXP2_SCALED_F32
    else:
        r, power = inverse_power(b, b.mul(square, b.constant(-0.5)), shift)
        scaled = tuple(0.5 * c for c in EXP_F64)
    above, below = _ratio(b, z)
    p = b.horner(tuple(c * 2.0**-shift for c in scaled), r)
    return b.div(b.mul(p, above), b.mul(power, below))


def _ratio(b: Body, z: str) -> tuple[str, str]:
    """(P, Q) at z. Of f64 it is e^(z^2 / 2) erfc(z / sqrt(2)), of f32 that by what `EXP2_SCALED_F32` lacks."""
    if b.single:
        return b.horner(NORMAL_P_F32, z), b.horner(NORMAL_Q_F32, z)
    at = b.mul(z, b.constant(0.5**0.5))
    return b.horner(ERFCX_P_F64, at), b.horner(ERFCX_Q_F64, at)


FUNCTIONS: dict[str, Function] = {"gelu": gelu}
