"""Sums of products of narrow elements that lie side by side in words of 32 bits: what an instruction adds to a sum at once.

quad_dot(x, y)     four unsigned bytes times four signed ones, summed in i32
signed_quad_dot(x, y), unsigned_quad_dot(x, y)     the same of bytes that have both a sign, or both none
small_quad_dot(x, y)     the same of small signed bytes: each sum of two products is cut to 16 bits, which hold those of numbers
                         up to 64
pair_dot(x, y)     two signed halves times two, summed in i32
bf16_dot(x, y)     two bfloat16 times two, summed in f32
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from .expr import Expr, Op

SMALL = "i7"  # signed bytes of 7 bits, and 64
ONES = 1 << 16 | 1  # a word of two halves that are 1: pair_dot adds up what the other word holds


@dataclass(frozen=True, slots=True)
class Dot:
    """An operator on two words. `left`, `right`: names of the elements of the one and the other; `pack`: what makes a word."""

    name: str
    left: str
    right: str
    pack: str
    group: int


DOTS = MappingProxyType({
    dot.name: dot
    for dot in (
        Dot("quad_dot", "u8", "i8", "byte_quad", 4),
        Dot("signed_quad_dot", "i8", "i8", "byte_quad", 4),
        Dot("unsigned_quad_dot", "u8", "u8", "byte_quad", 4),
        Dot("small_quad_dot", "u8", SMALL, "byte_quad", 4),
        Dot("pair_dot", "i16", "i16", "half_pair", 2),
        Dot("bf16_dot", "bf16", "bf16", "bf16_word", 2),
    )
})  # fmt: skip


def dot_of(expr: Expr) -> Dot | None:
    """The entry of an expression that is a dot of words; None for any other."""
    return DOTS.get(expr.name) if isinstance(expr, Op) else None
