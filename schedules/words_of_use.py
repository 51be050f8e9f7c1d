"""Which terms of sums of products of words are of any use, where words hold zeros because a condition fails.

    w[i, b, l] = a word of two elements, each select(32 * b + 2 * l + .. <= i, x, 0)
    p[i, j] = sum[b, l](dot(w[i, b, l], v[b, l, j]))        only terms with 32 * b <= i are of use

These are bounds of the sum alone, not of the words: who multiplies tiles of words looks at zeros too, so they are written.

Zero times what is not finite is NaN. So sums of floats have such bounds only where another sum stands in for results that are
not finite (tensor/exceptional.py) and itself looks at none of those words: then the condition says what counts.
"""

from __future__ import annotations

from ..tensor.dots import DOTS, dot_of
from ..tensor.exceptional import exceptional_condition
from ..tensor.expr import Const, Expr, Op, Read, children
from ..tensor.indices.affine import affine
from ..tensor.indices.bounds import (
    Bound,
    bounds_of,
    bounds_of_all,
    bounds_of_both,
    bounds_where_read,
    reads_under_bounds,
)
from ..tensor.program import Program, Stage
from ..tensor.stage_edits import axis_ranges

_PACKS = frozenset(dot.pack for dot in DOTS.values())


def terms_of_words(program: Program, stage: Stage) -> frozenset[Bound]:
    """Returns the bounds beyond which all words of an operand are zero, of a sum of products of words; none of other stages."""
    if stage.combiner != "sum" or len(stage.bodies) != 1 or dot_of(stage.bodies[0]) is None:
        return frozenset()
    found = frozenset[Bound]().union(*(_of_operand(program, stage, word) for word in children(stage.bodies[0])))
    terms = {axis.name for axis in stage.reduction}  # bounds without them tell of results, which are written
    return frozenset(bound for bound in found if terms & bound.coefficients.keys())


def _of_operand(program: Program, stage: Stage, word: Expr) -> frozenset[Bound]:
    """Returns the bounds of a sum beyond which one of its operands is zero."""
    made = program.producers.get(word.tensor) if isinstance(word, Read) else None
    if made is None or not isinstance(word, Read):
        return frozenset()
    zeros = _zeros(made)
    if zeros and stage.tensors[0].dtype.is_float:
        zeros = bounds_of_both(zeros, _looked_at(program, stage, made), axis_ranges(made))
    found = (_at(bound, made, word) for bound in zeros)
    return frozenset(bound for bound in found if bound.is_linear)


def _zeros(stage: Stage) -> frozenset[Bound]:
    """Returns the bounds beyond which a stage makes words of zeros alone."""
    match stage.bodies:
        case (Op(name=name, args=elements),) if name in _PACKS and stage.combiner is None:
            return bounds_of_all(map(_zero_beyond, elements), axis_ranges(stage))
    return frozenset()


def _zero_beyond(element: Expr) -> frozenset[Bound]:
    match element:
        case Op(name="select", args=(condition, _, Const(value=0))):
            return bounds_of(condition)
    return frozenset()


def _looked_at(program: Program, stage: Stage, words: Stage) -> frozenset[Bound]:
    """Returns the bounds of words that sums keep to which stand in for results of a stage; none where there are no such."""
    beside = [reader for reader in program.consumers[stage.name] if exceptional_condition(reader) is not None]
    axes = [axis.name for axis in words.axes]
    found = (
        bounds_where_read(bounds, read.indices, axes)
        for reader in beside
        for read, bounds in reads_under_bounds(reader.bodies[0])
        if read.tensor == words.name
    )
    return bounds_of_all(found, axis_ranges(words))


def _at(bound: Bound, made: Stage, word: Read) -> Bound:
    """The bound of a stage at the place where it is read."""
    place = Bound((), bound.constant)
    for axis, index in zip(made.axes, word.indices, strict=True):
        place = place.plus(affine(index), bound.coefficient(axis.var))
    return place
