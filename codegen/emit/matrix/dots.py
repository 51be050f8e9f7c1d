"""Instructions that add the products of narrow elements in words to vectors of sums: AVX-512 VNNI, AVX-VNNI, AVX-512 BF16.
And the one that leaves the addition to another one.

vpdpbusd     four unsigned bytes times four signed ones, modulo 2^32
vpdpwssd     two signed halves times two, modulo 2^32
vpmaddwd     the sum of such two products, modulo 2^32
vpmaddubsw   the sums of two products of unsigned and signed bytes, cut to halves, of which vpmaddwd adds two up
vdpbf16ps    two bfloat16 times two; numbers below the least normal one count as zero
"""

from __future__ import annotations

from ....targets.matrix_instructions import WORD_BITS, vector_instruction
from ....tensor.dots import Dot
from ....tensor.dtype import i32
from ..types import Value, value_type
from ..values import Arithmetic

# name of an operator -> LLVM's name of the instruction, without the bits of its vectors, and the type of one word in lanes
_LLVM = {
    "quad_dot": ("llvm.x86.avx512.vpdpbusd", "i8", 4),
    "pair_dot": ("llvm.x86.avx512.vpdpwssd", "i16", 2),
    "bf16_dot": ("llvm.x86.avx512bf16.dpbf16ps", "bfloat", 2),
}

# bits of vectors -> LLVM's name of the instruction that adds nothing
_UNADDED = {
    128: "llvm.x86.sse2.pmadd.wd",
    256: "llvm.x86.avx2.pmadd.wd",
    512: "llvm.x86.avx512.pmaddw.d.512",
}


# The same of the one that adds the products of two pairs of bytes.
_OF_BYTES = {256: "llvm.x86.avx2.pmadd.ub.sw", 512: "llvm.x86.avx512.pmaddubs.w.512"}


def add_dot(arithmetic: Arithmetic, dot: Dot, total: Value, x: Value, y: Value) -> Value:
    """total + dot(x, y): one instruction where the target has it for as many lanes, operations on words elsewhere."""
    lanes = max(value.lanes for value in (total, x, y))
    row = vector_instruction(arithmetic.target.matrix_instructions, dot.left, dot.right)
    if row is None or row.n != lanes:
        return arithmetic.apply("add", [total, arithmetic.apply(dot.name, [x, y], total.dtype)], total.dtype)
    total, x, y = (arithmetic.spread(value, lanes) for value in (total, x, y))
    if not row.adds:
        return arithmetic.apply("add", [total, _unadded(arithmetic, dot, row.vector_bits, x, y)], total.dtype)
    name, element, group = _LLVM[dot.name]
    operands = f"<{group * lanes} x {element}>"
    kind = value_type(total.dtype, lanes)
    left, right = (arithmetic.text.compute(f"bitcast {v.typed} to {operands}", v.text) for v in (x, y))
    call = arithmetic.module.intrinsic(f"{name}.{row.vector_bits}", kind, kind, operands, operands)
    text = f"{call}({total.typed}, {operands} {left}, {operands} {right})"
    return Value(arithmetic.text.compute(text, total.text, left, right), total.dtype, lanes)


def _unadded(arithmetic: Arithmetic, dot: Dot, bits: int, x: Value, y: Value) -> Value:
    """The sums of the products in words, by instructions that add them to nothing."""
    lanes = bits // WORD_BITS
    words, halves = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    if dot.group == 4:
        left = _called(arithmetic, _OF_BYTES[bits], halves, f"<{4 * lanes} x i8>", x.text, y.text, words)
        right = "splat (i16 1)"
        return Value(_called(arithmetic, _UNADDED[bits], words, halves, left, right), i32, lanes)
    return Value(_called(arithmetic, _UNADDED[bits], words, halves, x.text, y.text, words), i32, lanes)


def _called(arithmetic: Arithmetic, name: str, kind: str, operands: str, left: str, right: str, given: str = "") -> str:
    """An instruction on two vectors, which are of the type that is given."""
    if given:
        left, right = (arithmetic.text.compute(f"bitcast {given} {one} to {operands}", one) for one in (left, right))
    call = arithmetic.module.intrinsic(name, kind, operands, operands)
    return arithmetic.text.compute(f"{call}({operands} {left}, {operands} {right})", left, right)
