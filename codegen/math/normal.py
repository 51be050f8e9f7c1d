"""gelu: x times the normal distribution function. tests/helpers/vector_math/fit.py makes the tables."""

from __future__ import annotations

from .body import Body, Function
from .exponential import exp_within
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
VANISHED = (14.5, 38.625)  # of f32 and f64: x times the tail is below half of the least denormal number


def gelu(b: Body, x: str) -> str:
    """x times the normal distribution function of x. Error <= 10 ulp, 10 + x^2 ulp of negative x. Of -inf -0, of inf inf.

    max(x, 0) - z tail(z), z = |x|: on the left the difference is its second part alone, to all its digits, and on the right
    the digits that the tail may lack do not count. So no choice between the two is left, and the rounding of z^2 may stay.
    """
    z = b.at_most(b.call("fabs", x), VANISHED[0 if b.single else 1])
    tail = b.mul(z, _density(b, b.mul(z, z)))
    if b.single:
        ratio = b.div(b.horner(NORMAL_P_F32, z), b.horner(NORMAL_Q_F32, z))
    else:
        at = b.mul(z, b.constant(0.5**0.5))
        ratio = b.div(b.horner(ERFCX_P_F64, at), b.horner(ERFCX_Q_F64, at))
    # -0 and not 0: so what vanishes on the left, and the result at -0, are -0
    return b.muladd(b.emit(f"fneg {b.type} {tail}"), ratio, b.at_least(x, -0.0))


def _density(b: Body, square: str) -> str:
    """e^(-square / 2) times what the ratio leaves out. Errors grow with the square."""
    if not b.scales:
        power = exp_within(b, b.mul(square, b.constant(-0.5)))
        return b.mul(power, b.constant(EXP2_SCALED_F32[0] if b.single else 0.5))
    log2_e = b.constant(MINUS_HALF_LOG2_E_F32)
    n = b.call("roundeven", b.mul(square, log2_e))
    r = b.muladd(square, log2_e, b.emit(f"fneg {b.type} {n}"))
    return b.scale(b.horner(EXP2_SCALED_F32, r), n)


FUNCTIONS: dict[str, Function] = {"gelu": gelu}
