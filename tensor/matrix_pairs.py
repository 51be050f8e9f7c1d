"""Sums of products of what words hold: what matrix units compute, found in an expression.

Words are elements of a tensor of words, or elements of a narrow tensor that lie side by side there, which stand for themselves:
bf16_word(f32(x[.., 2 l]), f32(x[.., 2 l + 1])), the word at x[.., 2 l].
"""

from __future__ import annotations

from dataclasses import dataclass

from .dots import DOTS, dot_of
from .expr import Cast, Expr, Op, Read, variables
from .indices.affine import affine

_GROUPS = {dot.pack: dot.group for dot in DOTS.values()}


@dataclass(frozen=True, slots=True)
class MatrixPairs:
    """sum over (p, q) in pairs of the products of what the words rows[p] and columns[q] hold, of the element types `a`, `b`

    A word in a narrow tensor is the read of its first element.
    """

    rows: tuple[Read, ...]
    columns: tuple[Read, ...]
    pairs: tuple[tuple[int, int], ...]
    a: str = "bf16"
    b: str = "bf16"


def matrix_pairs(expr: Expr, row: str, column: str) -> MatrixPairs | None:
    """The reads and their pairs, or None for an expression of another form: one dot of two words, or halves of bf16.

    `row`, `column`: the axes along which alone the one and the other factor of each product move.
    """
    dot = dot_of(expr)
    match expr:
        case Op(args=(left, right)) if dot is not None:
            x, y = _word(left), _word(right)
            if x is None or y is None:
                return None
            a, b = dot.left, dot.right
            if column in variables(x) or row in variables(y):
                (x, a), (y, b) = (y, b), (x, a)
            fits = not (column in variables(x) or row in variables(y))
            return MatrixPairs((x,), (y,), ((0, 0),), a, b) if fits else None
    halves: dict[str, list[tuple[Read, Read]]] = {"bf16_low": [], "bf16_high": []}
    for term in _terms(expr):
        match term:
            case Op(name="mul", args=(Op(name=one, args=(Read() as x,)), Op(name=two, args=(Read() as y,)))) if (
                one == two and one in halves
            ):
                halves[one].append((x, y))
            case _:
                return None
    found = halves["bf16_low"]
    if not found or sorted(map(repr, found)) != sorted(map(repr, halves["bf16_high"])):
        return None
    if any(column in variables(x) or row in variables(y) for x, y in found):
        return None
    rows, columns = (tuple(dict.fromkeys(pair[side] for pair in found)) for side in (0, 1))
    return MatrixPairs(rows, columns, tuple((rows.index(x), columns.index(y)) for x, y in found))


def _word(expr: Expr) -> Read | None:
    """The read of a word, or of the first of the elements that are one."""
    match expr:
        case Read():
            return expr
        case Op(name=name, args=(Cast(arg=Read() as first), *_) as parts) if len(parts) == _GROUPS.get(name):
            for n, part in enumerate(parts):
                if not isinstance(part, Cast) or not isinstance(part.arg, Read) or not _is_behind(first, part.arg, n):
                    return None
            return first
    return None


def _is_behind(first: Read, other: Read, places: int) -> bool:
    """Says whether an element lies so many places behind another one in its row."""
    if other.tensor != first.tensor or other.indices[:-1] != first.indices[:-1]:
        return False
    further = affine(other.indices[-1]).plus(affine(first.indices[-1]).times(-1))
    return not further.terms and further.constant == places


def _terms(expr: Expr) -> list[Expr]:
    match expr:
        case Op(name="add", args=(left, right)):
            return [*_terms(left), *_terms(right)]
    return [expr]
