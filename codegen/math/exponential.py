"""exp, sigmoid, log: argument reduction by powers of two, then a minimax polynomial.

The tables are made by tests/helpers/vector_math/fit.py.

Bounds are in ulp of the result, over all arguments; a unit of a denormal result is the smallest denormal.
"""

from __future__ import annotations

from .body import Body, Function

LOG2_E_F32 = 1.4426950216293335
LN2_F32_NEAREST = 0.6931471824645996
HALF_LOG2_E_F32 = 0.7213475108146667
HALF_LOG2_E_F64 = 0.7213475204444817

# e^r on [-ln 2, ln 2], lowest order first
EXP_F32 = (
    1.0,
    1.0,
    0.5000003576278687,
    0.1666661649942398,
    0.04166119173169136,
    0.008335958234965801,
    0.0014105612644925714,
    0.0001963136892300099,
)
# e^r on [-ln 2 / 2, ln 2 / 2]
EXP_HALF_F32 = (
    1.0,
    1.0,
    0.4999999403953552,
    0.16666516661643982,
    0.041668105870485306,
    0.008369140326976776,
    0.001383670954965055,
)
EXP_F64 = (
    1.0,
    1.0,
    0.4999999999999993,
    0.16666666666666963,
    0.041666666666702316,
    0.008333333333268243,
    0.0013888888883498058,
    0.00019841269891537227,
    2.480159088986124e-05,
    2.7557301932896568e-06,
    2.755614154499327e-07,
    2.5054681348597914e-08,
    2.1063849256404978e-09,
    1.5966789947809914e-10,
)

# (log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1]
LOG_F32 = (
    0.3333333134651184,
    -0.250008225440979,
    0.20001260936260223,
    -0.16623331606388092,
    0.14200954139232635,
    -0.13159382343292236,
    0.12766823172569275,
    -0.07643754035234451,
)

# (log((1 + s)/(1 - s)) - 2 s) / s^3 as a polynomial in s^2, s^2 up to (3 - sqrt(8))^2
LOG_F64 = (
    0.6666666666666734,
    0.39999999999416636,
    0.2857142874206879,
    0.22222198593743175,
    0.18183563971175526,
    0.15314038189115442,
    0.14796328105059844,
)

# ln 2 in two parts; the first has so few bits that its products with exponents are exact
LN2_F32 = (0.693145751953125, 1.428606765330187e-06)
LN2_F64 = (0.6931471805601177, -1.7239444525614835e-13)

LEAST = -87.33654022216797  # of f32 whose power of e is a normal number

# whether f32 or f64 -> x with 2^n = 2^-127 or 2^-1023 in `exp_within`, whose bits are those of zero
NO_POWER = {True: -176.0, False: -1418.0}
# bits of vectors from which on clamping is the quicker way; in a GPU's threads, whose vectors are shorter, it takes registers
# (79 in a softmax on sm_90a where the model expects 53)
_CLAMPED = 256


def exp(b: Body, x: str) -> str:
    """e^x. exp(-inf) = 0; overflow gives inf.

    Where powers are scaled and a mask costs nothing, what is less than the least normal number is 0. Processors of Intel take a
    hundred cycles for an instruction that meets a subnormal number, and the softmax of a window whose mask is -100 is full of
    e^-100: the 4 x 12 products of 49 x 49 x 32 that follow it took a Granite Rapids 2,700 us, and 24 of ordinary numbers.
    Elsewhere underflow goes through the subnormal numbers, and what is far too small for any of them is a product with zero. An
    EPYC of Zen 3, which minds them little, takes 8.6 cycles for eight numbers (10.8 where a mask sets them to zero).
    """
    high, low = (89.0, LEAST if b.scales else -104.0) if b.single else (710.0, -746.0)
    if b.scales:  # the last instruction does it: what its lane is computed from does not matter
        return exp_within(b, b.at_most(x, high), where=b.compare("uge", x, b.constant(low)))
    if b.lanes * (32 if b.single else 64) < _CLAMPED:
        vanishes = b.compare("olt", x, b.constant(low))
        zero = b.constant(0.0)
        return b.select(vanishes, zero, exp_within(b, b.select(vanishes, zero, b.at_most(x, high))))
    return exp_within(b, b.at_least(b.at_most(x, high), NO_POWER[b.single]))


def exp2(b: Body, x: str) -> str:
    """2^x. Exact where x is an integer. exp2(-inf) = 0; overflow gives inf, denormals are right.

    x = n + r with |r| <= 1/2 (2 n + r with |r| <= 1 where 2^n is multiplied twice), and 2^r = e^(r ln 2): r is exact.
    """
    high, low = (129.0, -151.0) if b.single else (1025.0, -1077.0)
    ln2 = b.constant(LN2_F32_NEAREST if b.single else 0.6931471805599453)
    within = b.at_least(b.at_most(x, high), low)
    if b.scales:
        magic = b.constant(1.5 * 2.0**b.mantissa_bits)
        n = b.sub(b.add(within, magic), magic)
        return b.scale(b.horner(EXP_HALF_F32, b.mul(b.sub(within, n), ln2)), n)
    magic = b.constant(1.5 * 2.0**b.mantissa_bits + (127.0 if b.single else 1023.0))
    shifted = b.muladd(within, b.constant(0.5), magic)
    n = b.sub(shifted, magic)
    p = b.horner(EXP_F32 if b.single else EXP_F64, b.mul(b.sub(within, b.add(n, n)), ln2))
    power = b.float_of_bits(b.integer_op("shl", b.bits(shifted), b.integer(b.mantissa_bits)))
    return b.mul(b.mul(p, power), power)


def sigmoid(b: Body, x: str) -> str:
    """1 / (1 + e^-x), which keeps small results exact. sigmoid(-inf) = 0, of inf 1.

    With e^x = p 2^n it is p / (p + 2^-n), so that no power is multiplied. Both are taken 2^-24 (2^-54) times, where 2^-n is a
    normal number for all n that do not vanish; what the quotient rounds to may be subnormal.
    """
    high, low = (20.0, -104.0) if b.single else (40.0, -746.0)  # there e^x + 1 rounds to e^x, and e^x to 0
    shift = 24 if b.single else 54
    r, power = inverse_power(b, b.at_least(b.at_most(x, high), low), shift)
    p = b.horner(tuple(c * 2.0**-shift for c in (EXP_HALF_F32 if b.single else EXP_F64)), r)
    return b.div(p, b.add(p, power))


def inverse_power(b: Body, x: str, shift: int) -> tuple[str, str]:
    """(r, 2^(-n - shift)) of x = n ln 2 + r with |r| <= ln 2 / 2. -n - shift is the exponent of a normal number."""
    ln2_high, ln2_low = LN2_F32 if b.single else LN2_F64
    opposite, power = rounded_power(b, x, -LOG2_E_F32 if b.single else -2 * HALF_LOG2_E_F64, shift)
    r = b.muladd(opposite, b.constant(ln2_high), x)
    return b.muladd(opposite, b.constant(ln2_low), r), power


def rounded_power(b: Body, x: str, factor: float, shift: int) -> tuple[str, str]:
    """(m, 2^(m - shift)) for the integer m nearest to `factor` x. m - shift is the exponent of a normal number.

    m comes out of the low bits of a float, as in `exp_within`.
    """
    magic = b.constant(1.5 * 2.0**b.mantissa_bits + (127.0 if b.single else 1023.0) - shift)
    shifted = b.muladd(x, b.constant(factor), magic)
    power = b.float_of_bits(b.integer_op("shl", b.bits(shifted), b.integer(b.mantissa_bits)))
    return b.sub(shifted, magic), power


def exp_within(b: Body, x: str, low: str = "", where: str = "") -> str:
    """e^(x + low) for x of [-104, 89] (f32) or [-746, 710] (f64), and 0 at NO_POWER; `low` is at most about a unit of x. Where
    `scales`, a mask `where` may say for which lanes: the others are 0, whatever their x.

    x = 2 n ln 2 + r with |r| <= ln 2, and e^x = e^r 2^n 2^n: 2^n alone is always a normal number, so that two products do
    what scaling by 2^(2n) at the edges of the range needs cases for. n comes out of the low bits of a float: adding
    1.5 * 2^mantissa_bits rounds to integers, and the exponent bias is added with it.
    """
    if b.scales:
        return _exp_scaled(b, x, low, where)
    magic = b.constant(1.5 * 2.0**b.mantissa_bits + (127.0 if b.single else 1023.0))
    ln2_high, ln2_low = LN2_F32 if b.single else LN2_F64
    shifted = b.muladd(x, b.constant(HALF_LOG2_E_F32 if b.single else HALF_LOG2_E_F64), magic)
    n = b.sub(shifted, magic)
    r = b.muladd(n, b.constant(-2 * ln2_high), x)
    r = b.muladd(n, b.constant(-2 * ln2_low), r)
    if low:
        r = b.add(r, low)
    p = b.horner(EXP_F32 if b.single else EXP_F64, r)
    power = b.float_of_bits(b.integer_op("shl", b.bits(shifted), b.integer(b.mantissa_bits)))
    return b.mul(b.mul(p, power), power)


def _exp_scaled(b: Body, x: str, low: str, where: str) -> str:
    """Computes e^(x + low) of f32 with an instruction that multiplies by 2^n for any n: x = n ln 2 + r with |r| <= ln 2 / 2.
    Gives 0 where the mask `where` does not hold."""
    magic = b.constant(1.5 * 2.0**b.mantissa_bits)
    n = b.sub(b.muladd(x, b.constant(LOG2_E_F32), magic), magic)
    r = b.muladd(n, b.constant(-LN2_F32[0]), x)
    r = b.muladd(n, b.constant(-LN2_F32[1]), r)
    if low:
        r = b.add(r, low)
    return b.scale(b.horner(EXP_HALF_F32, r), n, where)


def log(b: Body, x: str) -> str:
    """Natural logarithm. log(0) = -inf, of a negative number NaN, of inf inf."""
    f, k = split_float(b, x)
    return _ends_of_log(b, x, (_log_f32 if b.single else _log_f64)(b, f, k))


def log2(b: Body, x: str) -> str:
    """Logarithm to the base 2. Exact where x is a power of 2. Ends as those of log."""
    f, k = split_float(b, x)
    part = (_log_f32 if b.single else _log_f64)(b, f, b.constant(0.0))
    return _ends_of_log(b, x, b.muladd(part, b.constant(LOG2_E_F32 if b.single else 1.4426950408889634), k))


def _ends_of_log(b: Body, x: str, result: str) -> str:
    result = b.select(b.compare("ult", x, b.constant(float("inf"))), result, x)  # inf
    result = b.select(b.compare("olt", b.constant(0.0), x), result, b.constant(float("nan")))  # negative, NaN
    return b.select(b.compare("oeq", x, b.constant(0.0)), b.constant(float("-inf")), result)


def split_float(b: Body, x: str) -> tuple[str, str]:
    """(f, k) with x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), of positive finite x; k is a float."""
    tiny = b.compare("olt", x, b.constant(2.0**-126 if b.single else 2.0**-1022))
    scale = float(b.mantissa_bits + 1)
    scaled = b.select(tiny, b.mul(x, b.constant(2.0**scale)), x)  # denormals become normal
    root = b.integer(0x3F3504F3 if b.single else 0x3FE6A09E667F3BCD)
    offset = b.integer_op("sub", b.bits(scaled), root)
    exponent = b.integer_op("ashr", offset, b.integer(b.mantissa_bits))
    fraction = b.integer_op("and", offset, b.integer((1 << b.mantissa_bits) - 1))
    f = b.sub(b.float_of_bits(b.integer_op("add", fraction, root)), b.constant(1.0))
    return f, b.sub(_small_to_float(b, exponent), b.select(tiny, b.constant(scale), b.constant(0.0)))


def _small_to_float(b: Body, value: str) -> str:
    """An exponent as a float; in f64 without an instruction that converts i64, which few targets have for vectors."""
    if b.single:
        return b.emit(f"sitofp {b.int_type} {value} to {b.type}")
    bits = b.integer_op("add", value, b.integer(0x4338000000000000))  # the bits of 1.5 * 2^52
    return b.sub(b.float_of_bits(bits), b.constant(1.5 * 2.0**52))


def _log_f32(b: Body, f: str, k: str) -> str:
    """log(1 + f) + k ln 2 with log(1 + f) = f - f^2/2 + f^3 p(f)."""
    square = b.mul(f, f)
    tail = b.mul(b.mul(b.horner(LOG_F32, f), f), square)
    tail = b.muladd(k, b.constant(LN2_F32[1]), tail)
    tail = b.muladd(square, b.constant(-0.5), tail)
    return b.muladd(k, b.constant(LN2_F32[0]), b.add(f, tail))


def _log_f64(b: Body, f: str, k: str) -> str:
    """log(1 + f) + k ln 2 with s = f / (2 + f): log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 p(s^2)), as in Sun's fdlibm."""
    s = b.div(f, b.add(f, b.constant(2.0)))
    z = b.mul(s, s)
    half_square = b.mul(b.mul(f, b.constant(0.5)), f)
    tail = b.mul(s, b.add(half_square, b.mul(z, b.horner(LOG_F64, z))))
    tail = b.muladd(k, b.constant(LN2_F64[1]), tail)
    return b.muladd(k, b.constant(LN2_F64[0]), b.sub(f, b.sub(half_square, tail)))


FUNCTIONS: dict[str, Function] = {"exp": exp, "exp2": exp2, "log": log, "log2": log2, "sigmoid": sigmoid}
