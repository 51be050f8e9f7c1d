"""Packing: words of narrow elements, where these lie side by side in memory already, or need no rounding.

byte_quad(i32(x[4 l]), i32(x[4 l + 1]), i32(x[4 l + 2]), i32(x[4 l + 3]))     one load of 32 bits
bf16_pair(f32(x[l]), f32(y[l]))                                               two loads, joined: they are bfloat16 already
"""

from __future__ import annotations

from dataclasses import dataclass

from ...tensor.dtype import bf16
from ...tensor.expr import Cast, Const, Expr, Op, Read

# name of what makes a word -> bits of an element in it
PACKS = {"byte_quad": 8, "half_pair": 16, "bf16_pair": 16}


@dataclass(frozen=True, slots=True)
class Elements:
    """Holds what a word is made of: reads of one tensor of elements as wide as they are in the word, and what is added to
    each."""

    reads: tuple[Read, ...]
    added: int


def elements_of(node: Op) -> Elements | None:
    """The elements of a word that is made of nothing but these."""
    bits = PACKS.get(node.name)
    found = [_element(arg) for arg in node.args] if bits is not None else []
    reads = [one[0] for one in found if one is not None]
    if not reads or len(reads) < len(found) or len({one[1] for one in found if one is not None}) > 1:
        return None
    if any(read.tensor != reads[0].tensor or read.dtype.bits != bits for read in reads):
        return None
    if (node.name == "bf16_pair") != (reads[0].dtype == bf16):
        return None
    first = found[0]
    assert first is not None
    return Elements(tuple(reads), first[1])


def _element(expr: Expr) -> tuple[Read, int] | None:
    match expr:
        case Cast(arg=Read() as read):
            return read, 0
        case Op(name="add", args=(Cast(arg=Read() as read), Const(value=value))) if isinstance(value, int):
            return read, value
        case Op(name="sub", args=(Cast(arg=Read() as read), Const(value=value))) if isinstance(value, int):
            return read, -value
    return None


def is_bf16(expr: Expr) -> bool:
    """Says whether an expression of f32 is a bfloat16 as it was read, or nothing in its place."""
    match expr:
        case Cast(arg=Read(dtype=dtype)):
            return dtype == bf16
        case Op(name="select", args=(_, yes, Const(value=value))):
            return is_bf16(yes) and value == 0
    return False


def spread_byte(added: int, bits: int) -> int | None:
    """Returns what a word is xored with where half of an element's range is added to each; 0 for nothing, None for anything
    else."""
    if added % (1 << bits) == 0:
        return 0
    if added % (1 << bits) != 1 << (bits - 1):
        return None
    word = sum(1 << (bits * n + bits - 1) for n in range(32 // bits))
    return word - (1 << 32) if word >= 1 << 31 else word
