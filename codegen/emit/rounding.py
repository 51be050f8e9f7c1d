"""Rounding where a processor has no instruction for it, or one that does more.

floor, ceil and round of x86 before SSE4.1, where LLVM would call the C library for each lane, are sums and differences.

Rounded numbers, moved and cut to the range of a narrow integer: all but the rounding in integers.

    u8(min(max(round(v) + f32(z), 0), 255))   ->   u8(min(max(rounded_i32(min(v, 2^20)) + i32(z), 0), 255))

x86 rounds and converts by one instruction, ties to even. It gives the least i32 for what is too small, and for NaN, of which
any integer may be made. Packing vectors of integers into narrower ones clamps them by itself, where floats need an instruction
for each end. Below 2^20 the sum is exact as a float too, and what lies beyond is at an end either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...tensor.dtype import DType, Kind, boolean, f32, i32
from ...tensor.expr import Cast, Const, Expr, Op
from ...tensor.indices.operator_ranges import range_of
from ..math.body import shuffle_mask
from .types import Value, literal, suffix, value_type

if TYPE_CHECKING:
    from .values import Arithmetic

ROUNDING = frozenset(("floor", "ceil", "round"))
LARGEST = 1 << 20

# bits of a vector -> LLVM's name of the instruction, what it takes after its operand, and what processors call it
_ROUNDING = {
    128: ("llvm.x86.sse2.cvtps2dq", (), "sse2"),
    256: ("llvm.x86.avx.cvt.ps2dq.256", (), "avx2"),
    512: ("llvm.x86.avx512.mask.cvtps2dq.512", ("<16 x i32> zeroinitializer", "i16 -1", "i32 4"), "avx512f"),
}


def rounded(arithmetic: Arithmetic, name: str, value: Value) -> Value:
    """floor, ceil or round (to nearest, ties to even) of f32 or f64. NaN, infinities and the sign of zero stay.

    A number below 2^mantissa bits is rounded by adding that power, which leaves no bits for a fraction, and taking it away
    again; larger ones are whole. What was rounded the wrong way is one off.
    """
    dtype, lanes = value.dtype, value.lanes

    def constant(number: float) -> Value:
        return arithmetic.spread(Value(literal(number, dtype), dtype), lanes)

    def exact(operator: str, left: Value, right: Value) -> Value:
        """Writes it without leave to contract, which would let the sum below round nothing."""
        text = arithmetic.text.compute(f"{operator} {left.typed}, {right.text}", left.text, right.text)
        return Value(text, dtype, lanes)

    def signed(magnitude: Value) -> Value:
        """Gives it the sign of the value: rounding changes it only on the way to zero, where it should stay."""
        call = arithmetic.module.intrinsic(f"llvm.copysign.{suffix(dtype, lanes)}", value.type, value.type, value.type)
        text = arithmetic.text.compute(f"{call}({magnitude.typed}, {value.typed})", magnitude.text, value.text)
        return Value(text, dtype, lanes)

    power = constant(2.0 ** (23 if dtype.bits == 32 else 52))
    size = arithmetic.apply("abs", [value], dtype)
    whole = signed(exact("fsub", exact("fadd", size, power), power))
    if name != "round":
        test, step = ("gt", "fsub") if name == "floor" else ("lt", "fadd")
        wrong = arithmetic.apply(test, [whole, value], boolean)
        whole = signed(arithmetic.select(wrong, exact(step, whole, constant(1.0)), whole))
    return arithmetic.select(arithmetic.apply("lt", [size, power], boolean), whole, value)


@dataclass(frozen=True, slots=True)
class RoundedInteger:
    """Holds what is rounded, what is added to it, and the ends of the result."""

    rounded: Expr
    added: Expr | None
    least: int
    most: int

    @property
    def may_fall(self) -> bool:
        """Says whether what is added may have a sign: the least i32 has nothing below it."""
        added = self.added
        if isinstance(added, Const):
            return added.value < 0
        return isinstance(added, Cast) and added.arg.dtype.kind is Kind.SIGNED


def rounded_integer_of(expr: Cast) -> RoundedInteger | None:
    """A cast to a narrow integer as that of a rounded number between two ends; None for any other."""
    ends, inner = {"max": -float("inf"), "min": float("inf")}, expr.arg
    for _ in ends:
        match inner:
            case Op(name="min" | "max" as name, args=(other, Const(value=end))) if abs(ends[name]) > LARGEST:
                ends[name], inner = float(end), other
    least, most = ends["max"], ends["min"]
    if inner.dtype != f32 or not _holds(expr.dtype, least, most):
        return None
    match inner:
        case Op(name="round", args=(rounded,)):
            return RoundedInteger(rounded, None, int(least), int(most))
        case Op(name="add", args=(Op(name="round", args=(rounded,)), added)) if _is_small(added):
            return RoundedInteger(rounded, added, int(least), int(most))
    return None


def _holds(dtype: DType, least: float, most: float) -> bool:
    """Says whether a narrow integer holds all whole numbers between two, which are such numbers."""
    if not dtype.is_integer or dtype.bits > 16:
        return False
    low, high = range_of(dtype)
    return low <= least <= most <= high and least == int(least) and most == int(most)


def _is_small(added: Expr) -> bool:
    """Says whether a float is a whole number of 16 bits."""
    match added:
        case Const(value=value):
            return abs(value) < 1 << 16 and value == int(value)
        case Cast(arg=arg):
            return arg.dtype.is_integer and arg.dtype.bits <= 16
    return False


def rounds_to_integers(arithmetic: Arithmetic, value: Value) -> bool:
    """Says whether the target has the instruction for vectors as long as this one, or for parts of it."""
    bits = arithmetic.target.vector_bits
    known = bits in _ROUNDING and _ROUNDING[bits][2] in arithmetic.target.features
    return known and value.lanes > 0 and value.lanes * f32.bits % bits == 0


def rounded_integer(arithmetic: Arithmetic, value: Value, added: Value | None, wanted: RoundedInteger) -> Value:
    """The i32 that a float is rounded to, with what is added to it, between the ends."""
    value = arithmetic.apply("min", [value, Value(literal(LARGEST, f32), f32)], f32)
    if wanted.may_fall:
        value = arithmetic.apply("max", [value, Value(literal(-LARGEST, f32), f32)], f32)
    found = _to_integers(arithmetic, value)
    if added is not None:
        found = arithmetic.apply("add", [found, arithmetic.cast(added, i32)], i32)
    for name, end in (("max", wanted.least), ("min", wanted.most)):
        found = arithmetic.apply(name, [found, Value(literal(end, i32), i32)], i32)
    return found


def _to_integers(arithmetic: Arithmetic, value: Value) -> Value:
    """Rounds a vector, a register at a time."""
    text, bits = arithmetic.text, arithmetic.target.vector_bits
    name, more, _ = _ROUNDING[bits]
    lanes = bits // f32.bits
    floats, integers = value_type(f32, lanes), value_type(i32, lanes)
    call = arithmetic.module.intrinsic(name, integers, floats, *(one.rpartition(" ")[0] for one in more))
    parts: list[str] = []
    for first in range(0, value.lanes, lanes):
        part = value.text
        if value.lanes > lanes:
            mask = shuffle_mask(range(first, first + lanes))
            part = text.compute(f"shufflevector {value.typed}, {value.type} poison, {mask}", value.text)
        parts.append(text.compute(f"{call}({', '.join((f'{floats} {part}', *more))})", part))
    while len(parts) > 1:
        kind, mask = value_type(i32, lanes), shuffle_mask(range(2 * lanes))
        parts = [
            text.compute(f"shufflevector {kind} {one}, {kind} {other}, {mask}", one, other)
            for one, other in zip(parts[::2], parts[1::2], strict=True)
        ]
        lanes *= 2
    return Value(parts[0], i32, value.lanes)
