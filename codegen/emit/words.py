"""Words of narrow elements by operations on i32: packing them, taking them out, and sums of their products.

No processor needs an instruction of its own for these; one that has some multiplies vectors of words at once (matrix/dots.py);
these two add nothing to their sums:

vpmaddwd     the sum of two products of signed halves, modulo 2^32
vpmaddubsw   both sums of two products of unsigned and signed bytes, each cut to a half
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...targets.matrix_instructions import WORD_BITS, vector_instruction
from ...tensor.dots import SMALL
from ...tensor.dtype import i32
from .bf16_words import half, near, pair, word
from .module_text import ModuleText
from .text import FunctionText
from .types import Value, value_type

if TYPE_CHECKING:
    from .values import Arithmetic

# bits of vectors -> LLVM's name of the instruction
_OF_HALVES = {
    128: "llvm.x86.sse2.pmadd.wd",
    256: "llvm.x86.avx2.pmadd.wd",
    512: "llvm.x86.avx512.pmaddw.d.512",
}
_OF_BYTES = {256: "llvm.x86.avx2.pmadd.ub.sw", 512: "llvm.x86.avx512.pmaddubs.w.512"}


def words(arithmetic: Arithmetic, name: str, args: list[Value]) -> Value:
    """Computes one of the operators of `WORDS` without an instruction for it."""
    _, args = arithmetic.together(*args)
    match name:
        case "bf16_pair":
            low, high = args
            return pair(arithmetic, low, high)
        case "bf16_word":
            low, high = args
            return word(arithmetic, low, high)
        case "bf16_near":
            return near(arithmetic, *args)
        case "bf16_low" | "bf16_high":
            return half(arithmetic, name, *args)
        case "byte_quad" | "half_pair":
            return joined(arithmetic, args)
        case "signed_halves":
            return _widened(arithmetic, *args)
        case "half_add":
            return _halves_added(arithmetic, *args)
        case "bf16_dot":
            parts = [[half(arithmetic, part, arg) for arg in args] for part in ("bf16_low", "bf16_high")]
        case "quad_dot":
            x, y = args
            parts = [[_unsigned(arithmetic, x, 8 * n), _signed(arithmetic, y, 8 * n, 8)] for n in range(4)]
        case "small_quad_dot":
            return arithmetic.apply("add", _cut_pairs(arithmetic, *args), i32)
        case "pair_sums":
            return _pair_sums(arithmetic, *args)
        case "signed_quad_dot":
            parts = [[_signed(arithmetic, arg, 8 * n, 8) for arg in args] for n in range(4)]
        case "unsigned_quad_dot":
            parts = [[_unsigned(arithmetic, arg, 8 * n) for arg in args] for n in range(4)]
        case _:
            parts = [[_signed(arithmetic, arg, 16 * n, 16) for arg in args] for n in range(2)]
    total, *rest = [arithmetic.apply("mul", part, part[0].dtype) for part in parts]
    for product in rest:
        total = arithmetic.apply("add", [total, product], total.dtype)
    return total


def _widened(arithmetic: Arithmetic, pair_: Value) -> Value:
    """The signed bytes of halves, as halves of words."""
    count = 2 * (pair_.lanes or 1)
    bytes_, halves, words_ = f"<{count} x i8>", f"<{count} x i16>", value_type(i32, pair_.lanes)
    apart = arithmetic.text.compute(f"bitcast {pair_.typed} to {bytes_}", pair_.text)
    wide = arithmetic.text.compute(f"sext {bytes_} {apart} to {halves}", apart)
    return Value(arithmetic.text.compute(f"bitcast {halves} {wide} to {words_}", wide), i32, pair_.lanes)


def _pair_sums(arithmetic: Arithmetic, x: Value, y: Value) -> Value:
    """Both sums of two products of bytes as halves: one instruction where the target has it for as many lanes."""
    row = vector_instruction(arithmetic.target.matrix_instructions, "u8", SMALL)
    if row is None or row.n != x.lanes:
        return joined(arithmetic, _cut_pairs(arithmetic, x, y))
    return sums_of_bytes(arithmetic.text, arithmetic.module, x, y)


def _cut_pairs(arithmetic: Arithmetic, x: Value, y: Value) -> list[Value]:
    """Both sums of two products of bytes, cut to the range of 16 bits."""
    products = [
        arithmetic.apply("mul", [_unsigned(arithmetic, x, 8 * n), _signed(arithmetic, y, 8 * n, 8)], i32)
        for n in range(4)
    ]
    least, most = Value(str(-(1 << 15)), i32), Value(str((1 << 15) - 1), i32)
    pairs = []
    for n in (0, 2):
        pair_ = arithmetic.apply("add", products[n : n + 2], i32)
        pairs.append(arithmetic.apply("min", [arithmetic.apply("max", [pair_, least], i32), most], i32))
    return pairs


def joined(arithmetic: Arithmetic, parts: list[Value]) -> Value:
    """The low bits of some i32 side by side, the first one lowest."""
    bits = 32 // len(parts)
    total: Value | None = None
    for n, part in enumerate(parts):
        low = part if n == len(parts) - 1 else _operate(arithmetic, "and", part, (1 << bits) - 1)
        moved = _operate(arithmetic, "shl", low, bits * n) if n else low
        total = moved if total is None else _operate(arithmetic, "or", total, moved)
    assert total is not None
    return total


def _halves_added(arithmetic: Arithmetic, left: Value, right: Value) -> Value:
    """The sums of the halves of two words."""
    lanes, (left, right) = arithmetic.together(left, right)
    halves = f"<{2 * (lanes or 1)} x i16>"
    x, y = (arithmetic.text.compute(f"bitcast {one.typed} to {halves}", one.text) for one in (left, right))
    total = arithmetic.text.compute(f"add {halves} {x}, {y}", x, y)
    return Value(arithmetic.text.compute(f"bitcast {halves} {total} to {left.type}", total), i32, lanes)


def _unsigned(arithmetic: Arithmetic, word: Value, start: int) -> Value:
    """The byte from a bit on, as an i32."""
    return _operate(arithmetic, "and", _operate(arithmetic, "lshr", word, start) if start else word, 255)


def _signed(arithmetic: Arithmetic, word: Value, start: int, bits: int) -> Value:
    """Takes so many bits from a bit on, with their sign, as an i32."""
    above = 32 - start - bits
    top = _operate(arithmetic, "shl", word, above) if above else word
    return _operate(arithmetic, "ashr", top, 32 - bits)


def _operate(arithmetic: Arithmetic, name: str, left: Value, right: Value | int) -> Value:
    other = Value(str(right), i32) if isinstance(right, int) else right
    lanes, (left, other) = arithmetic.together(left, other)
    text = arithmetic.text.compute(f"{name} {left.typed}, {other.text}", left.text, other.text)
    return Value(text, i32, lanes)


def sums_of_halves(text: FunctionText, module: ModuleText, x: Value, y: Value) -> Value:
    """The sums of the products of both halves of words in whole vectors."""
    return _multiplied(text, module, _OF_HALVES, "i16", x, y)


def sums_of_bytes(text: FunctionText, module: ModuleText, x: Value, y: Value) -> Value:
    """Halves of words: the sums of two products of bytes."""
    return _multiplied(text, module, _OF_BYTES, "i8", x, y)


def _multiplied(
    text: FunctionText, module: ModuleText, names: dict[int, str], element: str, x: Value, y: Value
) -> Value:
    bits, words = x.lanes * WORD_BITS, x.type
    wide = {"i8": "i16", "i16": "i32"}[element]
    kind, operands = (f"<{bits // int(one[1:])} x {one}>" for one in (wide, element))
    left, right = (text.compute(f"bitcast {one.typed} to {operands}", one.text) for one in (x, y))
    call = module.intrinsic(names[bits], kind, operands, operands)
    result = text.compute(f"{call}({operands} {left}, {operands} {right})", left, right)
    if kind != words:
        result = text.compute(f"bitcast {kind} {result} to {words}", result)
    return Value(result, x.dtype, x.lanes)
