"""bfloat16 by integer operations: rounding to it, and words of two. No processor needs an instruction of its own for them; one
that multiplies vectors of such words has one that rounds a vector, for which numbers below the least normal one are zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...targets.matrix_instructions import vector_instruction
from ...tensor.dtype import DType, bf16, boolean, f32, i32
from .types import Value, value_type

if TYPE_CHECKING:
    from .values import Arithmetic

_HIGH = -65536  # bits 16..31


def round_bf16(arithmetic: Arithmetic, value: Value) -> Value:
    """An f32 to the nearest bfloat16, ties to even; NaN becomes a quiet NaN."""
    return _bitcast(arithmetic, _operate(arithmetic, "and", _rounded(arithmetic, value), _HIGH), bf16)


def pair(arithmetic: Arithmetic, low: Value, high: Value, exact: bool = False) -> Value:
    """Two f32, rounded, as one word. `exact`: they are bfloat16 already."""
    _, (low, high) = arithmetic.together(low, high)
    if exact:
        under = _operate(arithmetic, "lshr", _bitcast(arithmetic, low, i32), 16)
        return _operate(arithmetic, "or", _bitcast(arithmetic, high, i32), under)
    under = _operate(arithmetic, "lshr", _rounded(arithmetic, low), 16)
    return _operate(arithmetic, "or", _operate(arithmetic, "and", _rounded(arithmetic, high), _HIGH), under)


def word(arithmetic: Arithmetic, low: Value, high: Value) -> Value:
    """The same, for products: rounded by an instruction, where the target has it for these vectors.

    (One for two vectors at once is no faster, and emulated wrongly by Bochs, in which tests run.)
    """
    lanes, (low, high) = arithmetic.together(low, high)
    row = vector_instruction(arithmetic.target.matrix_instructions, bf16.name, bf16.name)
    if row is None or row.n != lanes:
        return pair(arithmetic, low, high)
    half_type, floats = f"<{lanes} x bfloat>", value_type(f32, lanes)
    call = arithmetic.module.intrinsic(f"llvm.x86.avx512bf16.cvtneps2bf16.{row.vector_bits}", half_type, floats)
    text = arithmetic.text
    halves = [text.compute(f"{call}({one.typed})", one.text) for one in (low, high)]
    places = ", ".join(f"i32 {place}" for lane in range(lanes) for place in (lane, lanes + lane))
    both = f"{half_type} {halves[0]}, {half_type} {halves[1]}"
    mixed = text.compute(f"shufflevector {both}, <{2 * lanes} x i32> <{places}>", *halves)
    words = value_type(i32, lanes)
    return Value(text.compute(f"bitcast <{2 * lanes} x bfloat> {mixed} to {words}", mixed), i32, lanes)


def half(arithmetic: Arithmetic, name: str, word: Value) -> Value:
    """bf16_low or bf16_high: the bits of one half are those of the f32, above 16 zeros."""
    bits = _operate(arithmetic, "shl", word, 16) if name == "bf16_low" else _operate(arithmetic, "and", word, _HIGH)
    return _bitcast(arithmetic, bits, f32)


def near(arithmetic: Arithmetic, value: Value) -> Value:
    """The bfloat16 next to an f32, as f32, ties away from zero: half of its last place is added."""
    moved = _operate(arithmetic, "add", _bitcast(arithmetic, value, i32), 0x8000)
    return _bitcast(arithmetic, _operate(arithmetic, "and", moved, _HIGH), f32)


def _rounded(arithmetic: Arithmetic, value: Value) -> Value:
    """The bits of an f32 with the upper half rounded: half of its last place is added, a little less where it is even."""
    bits = _bitcast(arithmetic, value, i32)
    last = _operate(arithmetic, "and", _operate(arithmetic, "lshr", bits, 16), 1)
    moved = _operate(arithmetic, "add", bits, _operate(arithmetic, "add", last, 0x7FFF))
    text = arithmetic.text.compute(f"fcmp uno {value.typed}, {value.text}", value.text)
    return arithmetic.select(Value(text, boolean, value.lanes), _operate(arithmetic, "or", bits, 0x400000), moved)


def _operate(arithmetic: Arithmetic, name: str, left: Value, right: Value | int) -> Value:
    if isinstance(right, int):
        right = arithmetic.spread(Value(str(right), i32), left.lanes)
    text = arithmetic.text.compute(f"{name} {left.typed}, {right.text}", left.text, right.text)
    return Value(text, i32, left.lanes)


def _bitcast(arithmetic: Arithmetic, value: Value, dtype: DType) -> Value:
    text = arithmetic.text.compute(f"bitcast {value.typed} to {value_type(dtype, value.lanes)}", value.text)
    return Value(text, dtype, value.lanes)
