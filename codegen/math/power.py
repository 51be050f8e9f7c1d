"""pow: e^(y log |x|), the logarithm with as many digits as the largest y needs, then the special cases of C99.

Pairs (high, low) stand for high + low, |low| at most half a unit of high (Dekker 1971).
"""

from __future__ import annotations

from .body import Body, Function
from .exponential import LN2_F64, exp, exp_within, log, split_float

Pair = tuple[str, str]

# 2 (atanh(s) - s - s^3/3) / s^5 as a polynomial in s^2, s^2 up to (3 - sqrt(8))^2
LOG_TAIL = (
    0.40000000000002256,
    0.28571428570099594,
    0.22222222519918444,
    0.18181784367677878,
    0.15386757297389136,
    0.13256818721261318,
    0.13196318022471207,
)

TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def pow_(b: Body, x: str, y: str) -> str:
    """x^y. As C99 and NumPy at the edges: pow(x, 0) = pow(1, y) = 1 even for NaN,
    pow(-1, +-inf) = 1, negative x with a y that is no integer gives NaN, odd y keep the sign of x, zeros and infinities too.
    """
    size = b.call("fabs", x)
    power = _power_f32(b, size, y) if b.single else _power_f64(b, size, y)
    infinity, zero = b.constant(float("inf")), b.constant(0.0)
    rising = b.compare("olt", zero, y)
    y_is_number = b.compare("ord", y, zero)
    at_zero = b.select(y_is_number, b.select(rising, zero, infinity), y)
    at_infinity = b.select(y_is_number, b.select(rising, infinity, zero), y)
    power = b.select(b.compare("oeq", x, zero), at_zero, power)
    power = b.select(b.compare("oeq", size, infinity), at_infinity, power)

    integer, odd = _parity(b, b.call("fabs", y))
    power = b.select(odd, b.call("copysign", power, x), power)
    undefined = b.both(b.compare("olt", x, zero), b.compare("one", size, infinity), b.negate(integer))
    power = b.select(undefined, b.constant(float("nan")), power)
    one = b.constant(1.0)
    power = b.select(b.compare("oeq", x, one), one, power)
    return b.select(b.compare("oeq", y, zero), one, power)


def _parity(b: Body, y: str) -> tuple[str, str]:
    """Masks: y >= 0 is an integer (infinity is), y is an odd integer. Rounds by adding 2^mantissa_bits."""

    def is_integer(value: str) -> str:
        limit = b.constant(2.0**b.mantissa_bits)
        rounded = b.sub(b.add(value, limit), limit)
        large = b.compare("oge", value, limit)
        return b.emit(f"or {b.bool_type} {large}, {b.compare('oeq', rounded, value)}")

    integer = is_integer(y)
    return integer, b.both(integer, b.negate(is_integer(b.mul(y, b.constant(0.5)))))


def _power_f32(b: Body, x: str, y: str) -> str:
    """Computes x^y of f32 in f64 throughout, where the exponential and the logarithm have digits to spare."""
    w = b.widened()
    x, y = (b.emit(f"fpext {b.type} {a} to {w.type}") for a in (x, y))
    return b.emit(f"fptrunc {w.type} {exp(w, w.mul(_held(w, y), log(w, x)))} to {b.type}")


def _power_f64(b: Body, x: str, y: str) -> str:
    """Computes x^y of f64 with log x as a pair. An infinite or zero x gives anything; the caller puts in what is right."""
    y = _held(b, y)
    logarithm = _log_pair(b, x)
    high, low = _two_product(b, y, logarithm[0])
    low = b.muladd(y, logarithm[1], low)
    within = b.at_least(b.at_most(high, 710.0), -746.0)
    power = exp_within(b, within, b.select(b.compare("oeq", within, high), low, b.constant(0.0)))
    return b.select(b.compare("ord", x, x), power, x)


def _held(b: Body, y: str) -> str:
    """Holds y within +-2^65, where every x but 1 has long overflowed or vanished, and 0 log 1 is still 0."""
    return b.at_least(b.at_most(y, 2.0**65), -(2.0**65))


def _log_pair(b: Body, x: str) -> Pair:
    """log x to about 2^-64: s = f / (2 + f) as a pair, then 2 s + s^3 (2/3 + s^2 p(s^2)), + k ln 2."""
    f, k = split_float(b, x)
    m = b.add(f, b.constant(1.0))
    bottom = b.add(m, b.constant(1.0))
    bottom_low = b.sub(m, b.sub(bottom, b.constant(1.0)))
    s = b.div(f, bottom)
    product, error = _two_product(b, s, bottom)
    rest = b.sub(b.sub(b.sub(f, product), error), b.mul(s, bottom_low))
    s_pair = s, b.div(rest, bottom)

    z = _multiply(b, s_pair, s_pair)
    high, low = b.two_sum(b.constant(TWO_THIRDS[0]), b.mul(z[0], b.horner(LOG_TAIL, z[0])))
    cubic = _multiply(b, _multiply(b, s_pair, z), (high, b.add(low, b.constant(TWO_THIRDS[1]))))
    high, low = b.two_sum(b.add(s_pair[0], s_pair[0]), cubic[0])
    low = b.add(low, b.add(b.add(s_pair[1], s_pair[1]), cubic[1]))
    total, error = b.two_sum(b.mul(k, b.constant(LN2_F64[0])), high)
    low = b.add(b.muladd(k, b.constant(LN2_F64[1]), low), error)
    return b.two_sum(total, low)


def _multiply(b: Body, p: Pair, q: Pair) -> Pair:
    """The product of two pairs, to about 2^-104."""
    high, low = _two_product(b, p[0], q[0])
    return high, b.add(low, b.muladd(p[0], q[1], b.mul(p[1], q[0])))


def _two_product(b: Body, p: str, q: str) -> Pair:
    """p q and its rounding error, to about 2^-105 of p q, without fused multiply-add (Dekker 1971)."""
    product = b.mul(p, q)
    p_high, p_low = _halves(b, p)
    q_high, q_low = _halves(b, q)
    error = b.sub(b.mul(p_high, q_high), product)
    error = b.add(b.add(error, b.mul(p_high, q_low)), b.mul(p_low, q_high))
    return product, b.add(error, b.mul(p_low, q_low))


def _halves(b: Body, p: str) -> Pair:
    """p as a sum of numbers of 26 and 27 bits; the high one has the low bits cleared, so nothing can overflow."""
    high = b.float_of_bits(b.integer_op("and", b.bits(p), b.integer(-1 << 27)))
    return high, b.sub(p, high)


FUNCTIONS: dict[str, Function] = {"pow": pow_}
