"""added_halves: sums of products of small bytes are added as halves before they become words.

    C[i, j] = sum[w](small_quad_dot(A[i, w], B[w, j]))
    ->  C[i, j] = sum[l](pair_dot(half_add(pair_sums(A[i, 2 l], B[2 l, j]), pair_sums(A[i, 2 l + 1], B[2 l + 1, j])), 65537))

One instruction makes a word of two halves for several words of bytes, where it did for each. That is exact where sums of all
these products fit in 16 bits: of numbers up to 32 of either sign beside data up to 255, or up to 64 beside data up to 127; and
of numbers that the text of the program holds so small together (word_ranges.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...common.errors import ProgramError
from ..dots import DOTS, ONES
from ..dtype import i32
from ..expr import Expr, Op, Read, call, const, substitute
from ..indices.affine import simplify
from ..program import Axis, Program, Stage
from ..stage_edits import find_axis, find_stage, free_axis_name, refuse, with_stages
from .word_ranges import held_sums, range_of_parts

SMALL_DOT, PAIRS = DOTS["small_quad_dot"], DOTS["pair_dot"]
LEAST, MOST = -(1 << 15), (1 << 15) - 1


@dataclass(frozen=True, slots=True)
class _ReadWords:
    """A read of words, and what one of them is made of there."""

    read: Read
    parts: tuple[Expr, ...]


def added_halves(program: Program, stage: str, depth: str, words: int = 2) -> Program:
    """A sum over words of small bytes adds the sums of some of them as halves.

    Args:
        stage: a sum of dots of small bytes.
        depth: a reduction axis whose extent is a multiple of `words`.
        words: how many there are in such a sum.

    Errors: ProgramError where the stage is no such sum, or its sums may not fit in 16 bits.
    """
    old = find_stage(program, stage)
    axis, (data, weights) = _found(program, old, depth, words)
    part = Axis(free_axis_name(old, "part"), axis.extent // words)
    total: Expr | None = None
    for place in _places(part, words):
        sums = call("pair_sums", *(_at(side.read, axis, place) for side in (data, weights)))
        total = sums if total is None else call("half_add", total, sums)
    assert total is not None
    reduction = tuple(part if one == axis else one for one in old.reduction)
    summed = replace(old, bodies=(call(PAIRS.name, total, const(ONES, i32)),), reduction=reduction)
    return with_stages(program, {old.name: (summed,)})


def can_add_halves(program: Program, stage: str, depth: str, words: int) -> bool:
    """True where `added_halves` applies."""
    try:
        _found(program, find_stage(program, stage), depth, words)
    except ProgramError:
        return False
    return True


def _found(program: Program, stage: Stage, depth: str, words: int) -> tuple[Axis, tuple[_ReadWords, _ReadWords]]:
    """The depth, the data and the weights."""
    sides = _operands(program, stage)
    if sides is None:
        raise refuse(stage, "this stage is no sum of dots of small bytes", expected="sum(small_quad_dot(x, y))")
    axis = find_axis(stage, depth)
    if axis not in stage.reduction or words < 2 or axis.extent % words:
        raise refuse(stage, f"{depth} has no {words} equal parts", expected="a reduction axis, and a divisor of it")
    (low, high), (least, most) = (range_of_parts(program, side.parts) for side in sides)
    ends = (low * least, low * most, high * least, high * most, 0)
    if 2 * min(ends) < LEAST or 2 * max(ends) > MOST:
        raise refuse(stage, "sums of two products may not fit in 16 bits", expected="dots of small bytes")
    count = 2 * words
    if count * min(ends) >= LEAST and count * max(ends) <= MOST:
        return axis, sides
    if low < 0 or not all(_are_held(program, half, high) for half in _halves(stage, axis, sides[1], words)):
        raise refuse(stage, f"sums of {words} words may not fit in 16 bits", expected="fewer words, or smaller bytes")
    return axis, sides


def _operands(program: Program, stage: Stage) -> tuple[_ReadWords, _ReadWords] | None:
    if stage.combiner != "sum":
        return None
    match stage.bodies:
        case (Op(name=SMALL_DOT.name, args=(Read() as one, Read() as other)),):
            found = [_words(program, read) for read in (one, other)]
            if found[0] is not None and found[1] is not None:
                return found[0], found[1]
    return None


def _words(program: Program, read: Read) -> _ReadWords | None:
    """A read of words that a stage packs, or of none."""
    maker = program.producers.get(read.tensor)
    match maker and maker.combiner is None and maker.bodies:
        case (Op(name=SMALL_DOT.pack, args=parts),):
            assert maker is not None
            places = {axis.name: index for axis, index in zip(maker.axes, read.indices, strict=True)}
            return _ReadWords(read, tuple(simplify(substitute(part, places)) for part in parts))
    return None


def _places(part: Axis, words: int) -> list[Expr]:
    """The words of a part of the depth."""
    return [part.var * words + n if n else part.var * words for n in range(words)]


def _at(read: Read, depth: Axis, place: Expr) -> Read:
    """The words at another place of the depth."""
    return replace(read, indices=tuple(simplify(substitute(index, {depth.name: place})) for index in read.indices))


def _halves(stage: Stage, depth: Axis, weights: _ReadWords, words: int) -> list[list[Expr]]:
    """The weights that meet in each half of a sum."""
    part = Axis(free_axis_name(stage, "part"), depth.extent // words)
    return [
        [
            simplify(substitute(element, {depth.name: place}))
            for place in _places(part, words)
            for element in weights.parts[first : first + 2]
        ]
        for first in (0, 2)
    ]


def _are_held(program: Program, weights: list[Expr], most: int) -> bool:
    """Says whether sums of products of these weights with data up to `most` fit in 16 bits."""
    found = held_sums(program, weights)
    return found is not None and most * found[0] >= LEAST and most * found[1] <= MOST
