"""What is known of the bytes that words are made of: the ranges that the text of a program gives them.

A stage that makes an operand says how small its elements are, as `W[k, j] = min(max(w[k, j], -64), 64)` does. What is given has
the range of its type. Stages may say so of some elements together, too: those of which a condition bounds the sum

    U[g, h, j] = sum[t: 2, e: 2](max(i32(w[8 g + 4 t + 2 h + e, j]), 0))        D the same of -w
    W[k, j] = select(U[k // 8, k % 4 // 2, j] <= 128 and D[k // 8, k % 4 // 2, j] <= 128, w[k, j], 0)

Whatever w is, no four elements of W of a group g and a half h then have more than 128 above zero, or below.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ..dtype import i32, i64
from ..expr import Cast, Const, Expr, Op, Read, const, substitute
from ..indices.affine import simplify
from ..indices.bounds import conjuncts
from ..indices.intervals import interval
from ..indices.operator_ranges import Interval, range_of
from ..program import Program, Stage

MOST_TERMS = 64  # of a sum that bounds elements together


def range_of_elements(program: Program, read: Read) -> Interval:
    """Returns the range of the elements of a tensor, as the text of the stage that makes them has it, or that of a type."""
    maker = program.producers.get(read.tensor)
    if maker is None or maker.combiner is not None or len(maker.bodies) != 1:
        return range_of(read.dtype)
    (body,) = maker.bodies
    return range_of_elements(program, body) if isinstance(body, Read) else interval(body, {})


def range_of_parts(program: Program, parts: tuple[Expr, ...]) -> Interval:
    """The range of what words are made of: elements, perhaps moved, or nothing in their place."""
    ranges = [_range_of_part(program, part) for part in parts]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _range_of_part(program: Program, part: Expr) -> Interval:
    match part:
        case Cast(arg=Read() as read):
            return range_of_elements(program, read)
        case Op(name="add", args=(inner, Const(value=by))):
            low, high = _range_of_part(program, inner)
            return low + int(by), high + int(by)
        case Op(name="select", args=(_, inner, Const(value=0))):
            low, high = _range_of_part(program, inner)
            return min(low, 0), max(high, 0)
    return interval(part, {})


def held_sums(program: Program, parts: Sequence[Expr]) -> Interval | None:
    """Bounds of the sums of those of some elements below zero and of those above, as conditions hold them; None where there are
    none of both."""
    reads = [part.arg for part in parts if isinstance(part, Cast) and isinstance(part.arg, Read)]
    maker = program.producers.get(reads[0].tensor) if len(reads) == len(parts) else None
    if maker is None or len({read.tensor for read in reads}) > 1 or maker.combiner is not None:
        return None
    match maker.bodies:
        case (Op(name="select", args=(condition, value, Const(value=0))),):
            given = _clamped(value)
        case _:
            return None
    least = most = None
    for bound in conjuncts(condition):
        match bound:
            case Op(name="le", args=(Read() as total, Const(value=limit))) if given is not None:
                sign = _bounds(program, maker, given, total, reads)
                least = -int(limit) if sign < 0 else least
                most = int(limit) if sign > 0 else most
    return None if least is None or most is None else (least, most)


def _clamped(value: Expr) -> Read | None:
    """The read of which a value is a part: the same number, or one nearer to zero."""
    match value:
        case Read():
            return value
        case Op(name="min", args=(inner, Const(value=end))) if end >= 0:
            return _clamped(inner)
        case Op(name="max", args=(inner, Const(value=end))) if end <= 0:
            return _clamped(inner)
    return None


def _bounds(program: Program, maker: Stage, given: Read, total: Read, reads: Sequence[Read]) -> int:
    """Says of which side of zero a sum, where it is read, has the terms of all elements that are read: 1 above, -1 below, 0 for
    neither."""
    summed = program.producers.get(total.tensor)
    if summed is None or summed.combiner != "sum" or len(summed.bodies) != 1:
        return 0
    sign, term = _one_side(summed.bodies[0])
    count = 1
    for axis in summed.reduction:
        count *= axis.extent
    if term is None or term.tensor != given.tensor or count > MOST_TERMS:
        return 0
    elements, groups = set(), set()
    for read in reads:
        places = {axis.name: index for axis, index in zip(maker.axes, read.indices, strict=True)}
        elements.add(_moved(given, places))
        groups.add(_moved(total, places))
    if len(groups) != 1 or len(elements) != len(reads):
        return 0
    own = {axis.name: index for axis, index in zip(summed.axes, *groups, strict=True)}
    names = [axis.name for axis in summed.reduction]
    terms = {
        _moved(term, own | {name: const(n, i64) for name, n in zip(names, places, strict=True)})
        for places in product(*(range(axis.extent) for axis in summed.reduction))
    }
    return sign if elements <= terms and len(terms) == count else 0


def _one_side(body: Expr) -> tuple[int, Read | None]:
    """The side of zero of which a term has what is read, and the read; of i32, in which no sum of few bytes goes round."""
    match body:
        case Op(name="max", args=(Cast(arg=Read() as read), Const(value=0)), dtype=dtype) if dtype == i32:
            return 1, read
        case Op(name="max", args=(Op(name="neg", args=(Cast(arg=Read() as read),)), Const(value=0)), dtype=dtype) if (
            dtype == i32
        ):
            return -1, read
    return 0, None


def _moved(read: Read, places: dict[str, Expr]) -> tuple[Expr, ...]:
    return tuple(simplify(substitute(index, places)) for index in read.indices)
