"""sin and cos: reduction to [-pi/4, pi/4], then minimax polynomials. tests/helpers/vector_math/fit.py makes the tables.

Up to 2^20 the reduction subtracts n pi/2 in several parts (Cody & Waite 1980). Beyond, where few programs go, a scalar function
computes x 2/pi modulo 4 in integers with as many bits of 2/pi as it takes (Payne & Hanek 1983); a branch skips it.
"""

from __future__ import annotations

from .body import Body, Function, suffix

# (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2/2) / r^4 as polynomials in r^2, |r| <= pi/4
SIN_F32 = (
    -0.16666655242443085,
    0.008332187309861183,
    -0.0001951791055034846,
)
COS_F32 = (
    0.04166664555668831,
    -0.0013887309469282627,
    2.4432287318632007e-05,
)
SIN_F64 = (
    -0.1666666666666663,
    0.00833333333332184,
    -0.00019841269829358316,
    2.7557313538309993e-06,
    -2.5050734329066267e-08,
    1.5895427691242216e-10,
)
COS_F64 = (
    0.041666666666666595,
    -0.0013888888888873307,
    2.4801587288964637e-05,
    -2.755731420269822e-07,
    2.087570305939675e-09,
    -1.1358611481810912e-11,
)

# pi/2 in parts of 33, 33 and 53 bits: products of the first two with n < 2^20 are exact in f64
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
TWO_OVER_PI = 0.6366197723675814
HUGE = 2.0**20

# floor(2/pi 2^1158)
TWO_OVER_PI_BITS = int(
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e909374b801924bba82746487"
    "3f877ac72c4a69cfba208d7d4baed1213a671c09ad17df904e64758e60d4ce7d272117e2ef7e4a0ec7fe25fff7816603"
    "fbcbc462d6829b47db4d9fb3c9f2c26dd3d18fd9a797fa8b5d49eeb1faf97c5ecf41ce7de294a4ba9afed7ec47e3574215",
    16,
)


def sin(b: Body, x: str) -> str:
    """Sine, of all finite numbers. sin(+-inf) = NaN, sin(-0) = -0."""
    r, quadrant = _reduce(b, b.call("fabs", x))
    sign = b.integer_op("and", b.bits(x), b.integer(-1 << (b.dtype.bits - 1)))
    return _finish(b, r, quadrant, sign)


def cos(b: Body, x: str) -> str:
    """Cosine, of all finite numbers. cos(+-inf) = NaN."""
    r, quadrant = _reduce(b, b.call("fabs", x))
    return _finish(b, r, b.integer_op("add", quadrant, b.integer(1)), b.integer(0))


def _finish(b: Body, r: str, quadrant: str, sign: str) -> str:
    """sin(r + quadrant pi/2), its sign bit flipped by `sign`."""
    square = b.mul(r, r)
    sine = b.muladd(b.mul(b.horner(SIN_F32 if b.single else SIN_F64, square), square), r, r)
    tail = b.mul(b.mul(square, square), b.horner(COS_F32 if b.single else COS_F64, square))
    half = b.mul(square, b.constant(0.5))
    near_one = b.sub(b.constant(1.0), half)
    lost = b.sub(b.sub(b.constant(1.0), near_one), half)  # what the subtraction from 1 rounded away
    cosine = b.add(near_one, b.add(tail, lost))
    odd = b.emit(f"trunc {b.int_type} {quadrant} to {b.bool_type}")
    flip = b.integer_op("shl", b.integer_op("and", quadrant, b.integer(2)), b.integer(b.dtype.bits - 2))
    value = b.bits(b.select(odd, cosine, sine))
    return b.float_of_bits(b.integer_op("xor", value, b.integer_op("xor", flip, sign)))


def _reduce(b: Body, x: str) -> tuple[str, str]:
    """x >= 0 as r + quadrant pi/2, |r| <= pi/4; the quadrant is an integer whose lowest two bits count."""
    r, quadrant = (_reduce_small_f32 if b.single else _reduce_small_f64)(b, x)
    finite = b.compare("olt", x, b.constant(float("inf")))
    huge = b.emit(f"and {b.bool_type} {finite}, {b.compare('oge', x, b.constant(HUGE))}")
    return _unless_huge(b, x, huge, r, quadrant)


def _reduce_small_f32(b: Body, x: str) -> tuple[str, str]:
    """Reduces numbers of f32 in f64, where one product and two parts of pi/2 are enough."""
    w = b.widened()
    wide = b.emit(f"fpext {b.type} {x} to {w.type}")
    magic = w.constant(1.5 * 2.0**52)
    shifted = w.muladd(wide, w.constant(TWO_OVER_PI), magic)
    n = w.sub(shifted, magic)
    r = w.muladd(n, w.constant(-HALF_PI[0]), wide)
    r = w.muladd(n, w.constant(-HALF_PI[1]), r)
    quadrant = b.emit(f"trunc {w.int_type} {w.bits(shifted)} to {b.int_type}")
    return b.emit(f"fptrunc {w.type} {r} to {b.type}"), quadrant


def _reduce_small_f64(b: Body, x: str) -> tuple[str, str]:
    """Reduces numbers of f64. The first difference is exact; the second keeps its rounding error, which the third part of
    pi/2 joins."""
    magic = b.constant(1.5 * 2.0**52)
    shifted = b.muladd(x, b.constant(TWO_OVER_PI), magic)
    n = b.sub(shifted, magic)
    first = b.muladd(n, b.constant(-HALF_PI[0]), x)
    high, low = b.two_sum(first, b.mul(n, b.constant(-HALF_PI[1])))
    return b.add(high, b.muladd(n, b.constant(-HALF_PI[2]), low)), b.bits(shifted)


def _unless_huge(b: Body, x: str, huge: str, r: str, quadrant: str) -> tuple[str, str]:
    """(r, quadrant), or in the lanes where `huge` holds what the scalar function gives; no such lane, no call."""
    condition = huge
    if b.lanes > 1:
        b.needs(f"declare i1 @llvm.vector.reduce.or.v{b.lanes}i1({b.bool_type})")
        condition = b.emit(f"call i1 @llvm.vector.reduce.or.v{b.lanes}i1({b.bool_type} {huge})")
    both, function = f"{{ {b.type}, {b.int_type} }}", f"@tilesmith.reduce_huge.{suffix(b.dtype, b.lanes)}"
    b.needs(_reduce_huge_text())
    b.needs(_reduce_lanes_text(b, both, function))
    before = b.current_block
    b.branch(condition, "huge", "reduced")
    arguments = f"{b.type} {x}, {b.bool_type} {huge}, {b.type} {r}, {b.int_type} {quadrant}"
    slow = b.emit(f"call {both} {function}({arguments})")
    slow_r = b.emit(f"extractvalue {both} {slow}, 0")
    slow_quadrant = b.emit(f"extractvalue {both} {slow}, 1")
    b.join("reduced")
    r = b.emit(f"phi {b.type} [ {r}, %{before} ], [ {slow_r}, %huge ]")
    return r, b.emit(f"phi {b.int_type} [ {quadrant}, %{before} ], [ {slow_quadrant}, %huge ]")


def _reduce_lanes_text(b: Body, both: str, function: str) -> str:
    """Writes the reduction of huge numbers as a function of its own, out of line: it is long, and next to never called."""
    inner = Body(b.dtype, b.lanes)
    r, quadrant = "%r", "%quadrant"
    for lane in range(b.lanes):
        r, quadrant = _huge_lane(inner, lane, "%x", "%huge", (r, quadrant))
    first = inner.emit(f"insertvalue {both} poison, {b.type} {r}, 0")
    result = inner.emit(f"insertvalue {both} {first}, {b.int_type} {quadrant}, 1")
    parameters = f"{b.type} %x, {b.bool_type} %huge, {b.type} %r, {b.int_type} %quadrant"
    head = f"define internal {both} {function}({parameters}) noinline cold {{"
    return "\n".join([head, *inner.lines, f"  ret {both} {result}", "}"])


def _huge_lane(b: Body, lane: int, x: str, huge: str, before: tuple[str, str]) -> tuple[str, str]:
    """Replaces one lane where `huge` holds. The function is called for every lane: that is rare and slow enough as it is."""
    element, whole = b.scalar_type, f"i{b.dtype.bits}"
    value = b.lane(b.type, x, lane)
    wide = b.emit(f"fpext float {value} to double") if b.single else value
    both = b.emit(f"call {{ double, i64 }} @tilesmith.reduce_huge(double {wide})")
    r = b.emit(f"extractvalue {{ double, i64 }} {both}, 0")
    quadrant = b.emit(f"extractvalue {{ double, i64 }} {both}, 1")
    if b.single:
        r = b.emit(f"fptrunc double {r} to float")
        quadrant = b.emit(f"trunc i64 {quadrant} to i32")
    here = b.lane(b.bool_type, huge, lane)
    r = b.emit(f"select i1 {here}, {element} {r}, {element} {b.lane(b.type, before[0], lane)}")
    quadrant = b.emit(f"select i1 {here}, {whole} {quadrant}, {whole} {b.lane(b.int_type, before[1], lane)}")
    return b.with_lane(b.type, before[0], element, r, lane), b.with_lane(b.int_type, before[1], whole, quadrant, lane)


def _reduce_huge_text() -> str:
    """{ r, quadrant } of a double of 2^20 or more (of others something finite): Payne & Hanek in 128-bit integers.

    x = m 2^e. The bits of 2/pi 2^e from weight 2 downwards, 192 of them, are three words of the table once e is a multiple of
    8 (what is over goes into m). The upper 128 bits of the product with m are the quadrant (2 bits) and its fraction.
    """
    return f"""{_two_over_pi_text()}
declare i128 @llvm.abs.i128(i128, i1)
declare i128 @llvm.ctlz.i128(i128, i1)
define internal {{ double, i64 }} @tilesmith.reduce_huge(double %x) noinline cold {{
  %bits = bitcast double %x to i64
  %biased = lshr i64 %bits, 52
  %over = sub i64 %biased, 1043
  %small = icmp slt i64 %over, 0
  %e = select i1 %small, i64 0, i64 %over
  %shift = and i64 %e, 7
  %fraction = and i64 %bits, 4503599627370495
  %unit = or i64 %fraction, 4503599627370496
  %m64 = shl i64 %unit, %shift
  %m = zext i64 %m64 to i128
  %steps = lshr i64 %e, 3
  %room = sub i64 125, %steps
  %lost = icmp slt i64 %room, 0
  %at = select i1 %lost, i64 0, i64 %room
  %p0 = getelementptr i8, ptr @tilesmith.two_over_pi, i64 %at
  %p1 = getelementptr i8, ptr %p0, i64 8
  %p2 = getelementptr i8, ptr %p0, i64 16
  %w0 = load i64, ptr %p0, align 1
  %w1 = load i64, ptr %p1, align 1
  %w2 = load i64, ptr %p2, align 1
  %z0 = zext i64 %w0 to i128
  %z1 = zext i64 %w1 to i128
  %low = mul i128 %m, %z0
  %middle = mul i128 %m, %z1
  %high64 = mul i64 %m64, %w2
  %high128 = zext i64 %high64 to i128
  %high = shl i128 %high128, 64
  %carry = lshr i128 %low, 64
  %sum = add i128 %middle, %carry
  %turns = add i128 %sum, %high
  %rounded = add i128 %turns, {1 << 125}
  %nearest = lshr i128 %rounded, 126
  %quadrant = trunc i128 %nearest to i64
  %signed = shl i128 %turns, 2
  %size = call i128 @llvm.abs.i128(i128 %signed, i1 false)
  %zeros = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %places = and i128 %zeros, 127
  %normal = shl i128 %size, %places
  %top128 = lshr i128 %normal, 64
  %top = trunc i128 %top128 to i64
  %digits = uitofp i64 %top to double
  %angle = fmul double %digits, 0x3FF921FB54442D18
  %places64 = trunc i128 %places to i64
  %power = sub i64 959, %places64
  %power_bits = shl i64 %power, 52
  %scale = bitcast i64 %power_bits to double
  %r = fmul double %angle, %scale
  %negative = icmp slt i128 %signed, 0
  %minus = fneg double %r
  %result = select i1 %negative, double %minus, double %r
  %first = insertvalue {{ double, i64 }} poison, double %result, 0
  %both = insertvalue {{ double, i64 }} %first, i64 %quadrant, 1
  ret {{ double, i64 }} %both
}}"""


def _two_over_pi_text() -> str:
    """The table of bits of 2/pi, the lowest first."""
    text = "".join(f"\\{byte:02X}" for byte in TWO_OVER_PI_BITS.to_bytes(152, "little"))
    return f'@tilesmith.two_over_pi = internal constant [152 x i8] c"{text}"'


FUNCTIONS: dict[str, Function] = {"sin": sin, "cos": cos}
