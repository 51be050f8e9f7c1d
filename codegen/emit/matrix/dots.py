"""Instructions that add the products of narrow elements in words to vectors of sums: AVX-512 VNNI, AVX-VNNI, AVX-512 BF16.
And those that leave the addition to another one (emit/words.py).

vpdpbusd     four unsigned bytes times four signed ones, modulo 2^32
vpdpwssd     two signed halves times two, modulo 2^32
vdpbf16ps    two bfloat16 times two; numbers below the least normal one count as zero
"""

from __future__ import annotations

from ....targets.matrix_instructions import vector_instruction
from ....tensor.dots import ONES, Dot
from ....tensor.dtype import i32
from ..types import Value, value_type
from ..values import Arithmetic
from ..words import sums_of_bytes, sums_of_halves

# name of an operator -> LLVM's name of the instruction, without the bits of its vectors, and the type of one word in lanes
_LLVM = {
    "quad_dot": ("llvm.x86.avx512.vpdpbusd", "i8", 4),
    "pair_dot": ("llvm.x86.avx512.vpdpwssd", "i16", 2),
    "bf16_dot": ("llvm.x86.avx512bf16.dpbf16ps", "bfloat", 2),
}


def add_dot(arithmetic: Arithmetic, dot: Dot, total: Value, x: Value, y: Value) -> Value:
    """total + dot(x, y): one instruction where the target has it for as many lanes, operations on words elsewhere."""
    lanes = max(value.lanes for value in (total, x, y))
    row = vector_instruction(arithmetic.target.matrix_instructions, dot.left, dot.right)
    if row is None or row.n != lanes:
        return arithmetic.apply("add", [total, arithmetic.apply(dot.name, [x, y], total.dtype)], total.dtype)
    total, x, y = (arithmetic.spread(value, lanes) for value in (total, x, y))
    if not row.adds:
        return arithmetic.apply("add", [total, _unadded(arithmetic, dot, x, y)], total.dtype)
    name, element, group = _LLVM[dot.name]
    operands = f"<{group * lanes} x {element}>"
    kind = value_type(total.dtype, lanes)
    left, right = (arithmetic.text.compute(f"bitcast {v.typed} to {operands}", v.text) for v in (x, y))
    call = arithmetic.module.intrinsic(f"{name}.{row.vector_bits}", kind, kind, operands, operands)
    text = f"{call}({total.typed}, {operands} {left}, {operands} {right})"
    return Value(arithmetic.text.compute(text, total.text, left, right), total.dtype, lanes)


def _unadded(arithmetic: Arithmetic, dot: Dot, x: Value, y: Value) -> Value:
    """The sums of the products in words, by instructions that add them to nothing."""
    text, module = arithmetic.text, arithmetic.module
    if dot.group == 4:
        x, y = sums_of_bytes(text, module, x, y), arithmetic.spread(Value(str(ONES), i32), x.lanes)
    return sums_of_halves(text, module, x, y)
