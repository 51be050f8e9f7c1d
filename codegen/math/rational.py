"""tanh, erf, erfc, rsqrt, each with one division. tests/helpers/vector_math/fit.py makes the tables."""

from __future__ import annotations

from .body import Body, Function
from .exponential import exp_within

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

# tanh(x) = x + x^3 P(x^2) / Q(x^2) up to 0.625
TANH_P_F64 = (
    -0.3333333333333333,
    -0.020497720864013604,
    -0.00019913027304556578,
)
TANH_Q_F64 = (
    1.0,
    0.4614931625920349,
    0.023289893951347753,
    0.00020648257730165575,
)

# erf(x) = x + x P(x^2) / Q(x^2) up to 1
ERF_P_F64 = (
    0.1283791670955126,
    -0.3170120714857102,
    -0.04831484292530983,
    -0.008813324292813627,
    -0.0004952528152292134,
    -2.0715650729610188e-05,
)
ERF_Q_F64 = (
    1.0,
    0.4604665919210017,
    0.09379151716428226,
    0.010688806522062362,
    0.000692062376893693,
    2.0790380329537662e-05,
)

# exp(x^2) (1 - erf(x)) = P(x - 1) / Q(x - 1) from 1 to 6
ERFC_P_F64 = (
    0.427583576155807,
    0.5379768974549611,
    0.2990848400013606,
    0.08974058659974865,
    0.014456223001692565,
    0.001000021090784825,
)
ERFC_Q_F64 = (
    1.0,
    1.897147031539093,
    1.5506597503548152,
    0.7010579860506155,
    0.18557502719113092,
    0.027395118927937806,
    0.001772505190146899,
)

LEAST_ERFC = 9.194548606872559  # of f32, up to which erfc is a normal number
# exp(x^2) (1 - erf(x)) = P(x) / Q(x) from 0 to 10.25, and to 27.25
ERFCX_P_F32 = (
    1.0,
    1.2377500534057617,
    0.7308094501495361,
    0.22879761457443237,
    0.032690200954675674,
)
ERFCX_Q_F32 = (
    1.0,
    2.3661296367645264,
    2.400692939758301,
    1.3238661289215088,
    0.4055595099925995,
    0.05794117972254753,
)
ERFCX_P_F64 = (
    1.0,
    2.340659609735534,
    2.7160759729459403,
    2.01886290584707,
    1.0545698367492093,
    0.40266556194638464,
    0.11366460153409394,
    0.02345108146956216,
    0.0033973564056175793,
    0.0003142687511784264,
    1.4270174099033527e-05,
)
ERFCX_Q_F64 = (
    1.0,
    3.469038776831047,
    5.6304670585685805,
    5.655378636986302,
    3.915108271271708,
    1.9669297446214795,
    0.7342105946943229,
    0.20446344270517572,
    0.041844473091122616,
    0.0060343040564785275,
    0.0005570268582464659,
    2.5293225034918027e-05,
)


def tanh(b: Body, x: str) -> str:
    """Hyperbolic tangent. Never beyond +-1, reached at infinity; tanh(-0) = -0."""
    return _odd_rational(b, x, TANH_P_F32, TANH_Q_F32, 9.015625) if b.single else _tanh_f64(b, x)


def erf(b: Body, x: str) -> str:
    """Error function. Never beyond +-1, reached at infinity; erf(-0) = -0."""
    return _odd_rational(b, x, ERF_P_F32, ERF_Q_F32, 3.9296875) if b.single else _erf_f64(b, x)


def erfc(b: Body, x: str) -> str:
    """1 - erf(x). With all digits where it is small. erfc(-inf) = 2, of inf 0.

    e^(-x^2) P(|x|) / Q(|x|), or 2 less that for negative x. The rounding of x^2 goes into the power with it. Where powers are
    scaled, what is less than the least normal number is 0, as in `exp`.
    """
    limit, top, bottom = (10.1875, ERFCX_P_F32, ERFCX_Q_F32) if b.single else (27.25, ERFCX_P_F64, ERFCX_Q_F64)
    a = b.at_most(b.call("fabs", x), limit)  # there it has vanished
    where = b.compare("ule", a, b.constant(LEAST_ERFC)) if b.scales else ""
    power = exp_within(b, *_negative_square(b, a), where)
    tail = b.mul(power, b.div(b.horner(top, a), b.horner(bottom, a)))
    return b.select(b.compare("olt", x, b.constant(0.0)), b.sub(b.constant(2.0), tail), tail)


def _negative_square(b: Body, a: str) -> tuple[str, str]:
    """-a^2 and its rounding error: in one operation where those are fused, else from halves of a."""
    square = b.mul(a, a)
    negative = b.emit(f"fneg {b.type} {square}")
    if b.scales:  # AVX-512 has fused operations
        return negative, b.muladd(b.emit(f"fneg {b.type} {a}"), a, square)
    high = b.float_of_bits(b.integer_op("and", b.bits(a), b.integer(-1 << (12 if b.single else 27))))
    low = b.sub(a, high)
    rest = b.add(b.sub(square, b.mul(high, high)), b.mul(b.mul(b.constant(-2.0), high), low))
    return negative, b.sub(rest, b.mul(low, low))


def rsqrt(b: Body, x: str) -> str:
    """1 / sqrt(x). rsqrt(+-0) = +-inf, of inf 0, of a negative number NaN.

    Two correctly rounded instructions: next to memory traffic they cost nothing, and they need no special cases.
    """
    return b.div(b.constant(1.0), b.call("sqrt", x))


def _odd_rational(b: Body, x: str, top: tuple[float, ...], bottom: tuple[float, ...], limit: float) -> str:
    """x P(x^2) / Q(x^2) with x held within +-limit and the result within +-1."""
    x = b.at_least(b.at_most(x, limit), -limit)
    square = b.mul(x, x)
    ratio = b.div(b.mul(x, b.horner(top, square)), b.horner(bottom, square))
    return b.at_least(b.at_most(ratio, 1.0), -1.0)


def _tanh_f64(b: Body, x: str) -> str:
    """a + a^3 P/Q for a = |x| below 0.625, else 1 - 2 / (e^2a + 1): both as base + top / bottom."""
    a = b.at_most(b.call("fabs", x), 20.0)  # from 19.1 on the result rounds to 1
    square = b.mul(a, a)
    small = b.compare("olt", a, b.constant(0.625))
    power = exp_within(b, b.add(a, a))
    top = b.select(small, b.mul(b.mul(a, square), b.horner(TANH_P_F64, square)), b.constant(-2.0))
    bottom = b.select(small, b.horner(TANH_Q_F64, square), b.add(power, b.constant(1.0)))
    base = b.select(small, a, b.constant(1.0))
    return b.call("copysign", b.add(base, b.div(top, bottom)), x)


def _erf_f64(b: Body, x: str) -> str:
    """a + a P/Q for a = |x| below 1, else 1 - e^(-a^2) P/Q: both as base + top / bottom."""
    a = b.at_most(b.call("fabs", x), 6.0)  # from 5.93 on the result rounds to 1
    square = b.mul(a, a)
    small = b.compare("olt", a, b.constant(1.0))
    beyond = b.sub(a, b.constant(1.0))
    power = exp_within(b, b.emit(f"fneg {b.type} {square}"))
    tail = b.emit(f"fneg {b.type} {b.mul(power, b.horner(ERFC_P_F64, beyond))}")
    top = b.select(small, b.mul(a, b.horner(ERF_P_F64, square)), tail)
    bottom = b.select(small, b.horner(ERF_Q_F64, square), b.horner(ERFC_Q_F64, beyond))
    base = b.select(small, a, b.constant(1.0))
    return b.call("copysign", b.add(base, b.div(top, bottom)), x)


FUNCTIONS: dict[str, Function] = {"tanh": tanh, "erf": erf, "erfc": erfc, "rsqrt": rsqrt}
