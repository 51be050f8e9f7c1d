"""floor, ceil and round for processors without an instruction for them (x86 before SSE4.1), where LLVM would call the C
library for each lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tensor.dtype import boolean
from .types import Value, literal, suffix

if TYPE_CHECKING:
    from .values import Arithmetic

ROUNDING = frozenset(("floor", "ceil", "round"))


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
