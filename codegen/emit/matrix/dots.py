"""Instructions that add the products of narrow elements in words to vectors of sums: AVX-512 VNNI, AVX-VNNI, AVX-512 BF16.
And the one that leaves the addition to another one.

vpdpbusd     four unsigned bytes times four signed ones, modulo 2^32
vpdpwssd     two signed halves times two, modulo 2^32
vpmaddwd     the sum of such two products, modulo 2^32
vdpbf16ps    two bfloat16 times two; numbers below the least normal one count as zero
"""

from __future__ import annotations

from ....targets.matrix_instructions import vector_instruction
from ....tensor.dots import Dot
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


def add_dot(arithmetic: Arithmetic, dot: Dot, total: Value, x: Value, y: Value) -> Value:
    """total + dot(x, y): one instruction where the target has it for as many lanes, operations on words elsewhere."""
    lanes = max(value.lanes for value in (total, x, y))
    row = vector_instruction(arithmetic.target.matrix_instructions, dot.left, dot.right)
    if row is None or row.n != lanes:
        return arithmetic.apply("add", [total, arithmetic.apply(dot.name, [x, y], total.dtype)], total.dtype)
    total, x, y = (arithmetic.spread(value, lanes) for value in (total, x, y))
    name, element, group = _LLVM[dot.name]
    operands = f"<{group * lanes} x {element}>"
    kind = value_type(total.dtype, lanes)
    left, right = (arithmetic.text.compute(f"bitcast {v.typed} to {operands}", v.text) for v in (x, y))
    if not row.adds:
        call = arithmetic.module.intrinsic(_UNADDED[row.vector_bits], kind, operands, operands)
        products = arithmetic.text.compute(f"{call}({operands} {left}, {operands} {right})", left, right)
        return arithmetic.apply("add", [total, Value(products, total.dtype, lanes)], total.dtype)
    call = arithmetic.module.intrinsic(f"{name}.{row.vector_bits}", kind, kind, operands, operands)
    text = f"{call}({total.typed}, {operands} {left}, {operands} {right})"
    return Value(arithmetic.text.compute(text, total.text, left, right), total.dtype, lanes)
