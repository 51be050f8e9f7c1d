"""Instructions that sum products of narrow elements in words up and add these to nothing: vpmaddwd, vpmaddubsw.

vpmaddwd     the sum of two products of signed halves, modulo 2^32
vpmaddubsw   both sums of two products of unsigned and signed bytes, each cut to a half
"""

from __future__ import annotations

from ....targets.matrix_instructions import WORD_BITS
from ..module_text import ModuleText
from ..text import FunctionText
from ..types import Value

# bits of vectors -> LLVM's name of the instruction
_OF_HALVES = {
    128: "llvm.x86.sse2.pmadd.wd",
    256: "llvm.x86.avx2.pmadd.wd",
    512: "llvm.x86.avx512.pmaddw.d.512",
}
_OF_BYTES = {256: "llvm.x86.avx2.pmadd.ub.sw", 512: "llvm.x86.avx512.pmaddubs.w.512"}


def sums_of_halves(text: FunctionText, module: ModuleText, x: Value, y: Value) -> Value:
    """The sums of the products of both halves of words in whole vectors."""
    return _called(text, module, _OF_HALVES, "i16", x, y)


def sums_of_bytes(text: FunctionText, module: ModuleText, x: Value, y: Value) -> Value:
    """Halves of words: the sums of two products of bytes."""
    return _called(text, module, _OF_BYTES, "i8", x, y)


def _called(text: FunctionText, module: ModuleText, names: dict[int, str], element: str, x: Value, y: Value) -> Value:
    bits, words = x.lanes * WORD_BITS, x.type
    wide = {"i8": "i16", "i16": "i32"}[element]
    kind, operands = (f"<{bits // int(one[1:])} x {one}>" for one in (wide, element))
    left, right = (text.compute(f"bitcast {one.typed} to {operands}", one.text) for one in (x, y))
    call = module.intrinsic(names[bits], kind, operands, operands)
    result = text.compute(f"{call}({operands} {left}, {operands} {right})", left, right)
    if kind != words:
        result = text.compute(f"bitcast {kind} {result} to {words}", result)
    return Value(result, x.dtype, x.lanes)
