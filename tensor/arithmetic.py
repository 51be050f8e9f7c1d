"""Entries of the table: arithmetic, comparisons, logic, choice, and words of two bfloat16."""

from __future__ import annotations

import numpy as np

from .dtype import boolean, f32, i16, i32
from .language import (
    ANY,
    ARITHMETIC,
    BOOLS,
    BOTH,
    COMPARED,
    COMPARISONS,
    FLOATS,
    INTEGERS,
    JOINED,
    LOGIC,
    MULTIPLIED,
    NUMBERS,
    SUMMED,
    WORDS,
    Infix,
    Operator,
    Rounding,
    Signature,
    enter,
)
from .oracle.errors import (
    bf16_dot,
    bf16_dot_error,
    bf16_error,
    bf16_half,
    bf16_near,
    bf16_pair,
    bf16_word_error,
    byte_quad,
    divided,
    extreme_error,
    half_add,
    half_pair,
    joined_error,
    pair_sums,
    product_error,
    selected,
    signed_halves,
    sizes,
    small_word_dot,
    undecided,
    word_dot,
)
from .oracle.roundings import FACTOR

_NUMBERS, _FLOATS, _INTEGERS = Signature(NUMBERS), Signature(FLOATS), Signature(INTEGERS)
_SUM = Rounding(lambda v, r, e: e[0] + e[1], keeps_small=True)
_PRODUCT = Rounding(lambda v, r, e: product_error(v, e))
_QUOTIENT = Rounding(lambda v, r, e: (e[0] + np.abs(r) * e[1]) / np.maximum(np.abs(v[1]) - FACTOR * e[1], 0))

# "div" is true division of floats; "floordiv" and "mod" are of integers and round down.
for _entry in (
    Operator("add", 2, _NUMBERS, np.add, lambda v, e: e[0] + e[1], _SUM, infix=Infix("+", SUMMED)),
    Operator("sub", 2, _NUMBERS, np.subtract, lambda v, e: e[0] + e[1], _SUM, infix=Infix("-", SUMMED)),
    Operator("mul", 2, _NUMBERS, np.multiply, lambda v, e: product_error(sizes(v), e), _PRODUCT, infix=Infix("*", MULTIPLIED)),
    Operator("div", 2, _FLOATS, np.divide, rounding=_QUOTIENT, slots=5.0, infix=Infix("/", MULTIPLIED)),
    Operator("floordiv", 2, _INTEGERS, np.floor_divide, lambda v, e: divided(sizes(v)[0], e[0], *e), slots=20.0,
             infix=Infix("//", MULTIPLIED)),
    Operator("mod", 2, _INTEGERS, np.mod, lambda v, e: divided(sizes(v)[1], e[1], *e), slots=25.0,
             infix=Infix("%", MULTIPLIED)),
    Operator("neg", 1, _NUMBERS, np.negative, lambda v, e: e[0]),
    Operator("min", 2, Signature(ANY), np.minimum, lambda v, e: extreme_error(np.minimum, v[0], e[0], v[1], e[1])),
    Operator("max", 2, Signature(ANY), np.maximum, lambda v, e: extreme_error(np.maximum, v[0], e[0], v[1], e[1])),
    Operator("abs", 1, _NUMBERS, np.abs, lambda v, e: e[0]),
):  # fmt: skip
    enter(_entry, ARITHMETIC)

for _name, _sign, _compare in (
    ("lt", "<", np.less), ("le", "<=", np.less_equal), ("gt", ">", np.greater), ("ge", ">=", np.greater_equal),
    ("eq", "==", np.equal), ("ne", "!=", np.not_equal),
):  # fmt: skip
    enter(
        Operator(_name, 2, Signature(ANY, boolean), _compare, lambda v, e: undecided(v[0], v[1], e[0] + e[1]),
                 infix=Infix(_sign, COMPARED)),
        COMPARISONS,
    )  # fmt: skip

for _entry in (
    Operator("and", 2, Signature(BOOLS), np.logical_and, lambda v, e: np.maximum(e[0], e[1]), infix=Infix("and", BOTH)),
    Operator("or", 2, Signature(BOOLS), np.logical_or, lambda v, e: np.maximum(e[0], e[1]), infix=Infix("or", JOINED)),
    Operator("not", 1, Signature(BOOLS), np.logical_not, lambda v, e: e[0]),
):
    enter(_entry, LOGIC)

# bf16_pair(low, high) rounds two f32 to nearest even, low in bits 0..15; bf16_low and bf16_high give a half as f32. Rounding
# takes six operations on integers. The error of a pair is that of the worse half. bf16_word does the same for words that are
# multiplied: what is below the least normal number may become zero in it, as products have it anyway. Processors that multiply
# such words make them by an instruction. bf16_near gives the bfloat16 next to an f32 as f32, ties away from zero, by two
# operations. NaN whose upper half has all bits set becomes zero.
for _entry in (
    Operator("bf16_pair", 2, Signature(frozenset((f32,)), i32), bf16_pair,
             lambda v, e: np.maximum(bf16_error(v[0], e[0]), bf16_error(v[1], e[1])), operand_slots=6.0),
    Operator("bf16_word", 2, Signature(frozenset((f32,)), i32), bf16_pair,
             lambda v, e: np.maximum(bf16_word_error(v[0], e[0]), bf16_word_error(v[1], e[1])), operand_slots=2.0),
    Operator("bf16_near", 1, Signature(frozenset((f32,))), bf16_near, lambda v, e: bf16_error(v[0], e[0], bf16_near),
             operand_slots=2.0),
    Operator("bf16_low", 1, Signature(frozenset((i32,)), f32), lambda x: bf16_half(x, 16), lambda v, e: e[0]),
    Operator("bf16_high", 1, Signature(frozenset((i32,)), f32), lambda x: bf16_half(x, 0), lambda v, e: e[0]),
):  # fmt: skip
    enter(_entry, WORDS)

# byte_quad and half_pair put the low bytes of four i32, and the low halves of two, side by side, the first one lowest.
# signed_halves makes halves of the two signed bytes of an i16. half_add adds halves to halves, modulo 2^16, on all ports, of
# which two of four multiply. quad_dot sums the products of unsigned bytes with signed ones, its twins those of bytes alike,
# pair_dot those of signed halves, modulo 2^32; small_quad_dot cuts each sum of two products of bytes to 16 bits with a sign
# first; pair_sums has both of these side by side, as halves, and is used where an instruction does so; bf16_dot sums those of
# halves that are bfloat16, in f32: there numbers below the least normal one may count as zero.
# Where a processor has an instruction that adds such a sum to another one, this is all it costs
# (targets/matrix_instructions.py).
for _entry in (
    Operator("byte_quad", 4, Signature(frozenset((i32,))), byte_quad, lambda v, e: joined_error(e), slots=8.0),
    Operator("half_pair", 2, Signature(frozenset((i32,))), half_pair, lambda v, e: joined_error(e), slots=3.0),
    Operator("signed_halves", 1, Signature(frozenset((i16,)), i32), signed_halves, lambda v, e: joined_error(e), slots=1.0),
    Operator("half_add", 2, Signature(frozenset((i32,))), half_add, lambda v, e: joined_error(e), slots=0.4),
    Operator("quad_dot", 2, Signature(frozenset((i32,))), lambda x, y: word_dot(x, y, "u1", "i1"),
             lambda v, e: joined_error(e), slots=23.0),
    Operator("signed_quad_dot", 2, Signature(frozenset((i32,))), lambda x, y: word_dot(x, y, "i1", "i1"),
             lambda v, e: joined_error(e), slots=23.0),
    Operator("unsigned_quad_dot", 2, Signature(frozenset((i32,))), lambda x, y: word_dot(x, y, "u1", "u1"),
             lambda v, e: joined_error(e), slots=23.0),
    Operator("small_quad_dot", 2, Signature(frozenset((i32,))), small_word_dot, lambda v, e: joined_error(e), slots=27.0),
    Operator("pair_sums", 2, Signature(frozenset((i32,))), pair_sums, lambda v, e: joined_error(e), slots=1.0),
    Operator("pair_dot", 2, Signature(frozenset((i32,))), lambda x, y: word_dot(x, y, "i2", "i2"),
             lambda v, e: joined_error(e), slots=9.0),
    Operator("bf16_dot", 2, Signature(frozenset((i32,)), f32), bf16_dot,
             lambda v, e: bf16_dot_error(*v) + joined_error(e), slots=6.0),
):  # fmt: skip
    enter(_entry, WORDS)

# The signature is that of the two values; the condition, which stands before them, is bool.
enter(Operator("select", 3, Signature(ANY), np.where, selected))
