"""Reductions of which each point has one term: an axis that the conditions of the terms tie to others stands for no loop.

    y[o: 8, p: 4] = sum[c: 5, r: 4](select(p - r >= 0 and p - r < 1, x[c, p - r], 0) * w[c, o, r])
        ->      y[o: 8, p: 4] = sum[c: 5](x[c, 0] * w[c, o, p])

A transposed convolution of an image of one point is like that, and so is the gradient of what a window that covers all of its
image has read: 16 terms of 4 x 4 are tried for each that counts. What is left is a product of matrices. As in
trim_reductions.py, a term that is a product with a guarded zero is none, whatever the other factor is.
"""

from __future__ import annotations

from itertools import permutations

from ..indices.affine import interval_of_form
from ..indices.forms import Affine, to_expr
from ..program import Axis, Program, Stage
from ..stage_edits import axis_ranges, reduced_over
from .trim_reductions import bounds_of_reduction

Pinned = tuple[Axis, Affine]  # an axis of a reduction, and the only place of it that has a term


def pin_reductions(program: Program) -> Program:
    """The program without such axes."""
    return program.replacing(tuple(map(_pinned, program.stages)))


def can_pin_reductions(program: Program) -> bool:
    """Tells whether a stage has such axes."""
    return any(_one_term(stage) is not None for stage in program.stages)


def _pinned(stage: Stage) -> Stage:
    while (found := _one_term(stage)) is not None:
        pinned, place = found
        kept = [axis for axis in stage.reduction if axis != pinned]
        stage = reduced_over(stage, kept, {pinned.name: to_expr(place)})
    return stage


def _one_term(stage: Stage) -> Pinned | None:
    """Returns an axis that each point has one place of: of two bounds one is the other's negative, so that both are zero."""
    ranges = axis_ranges(stage)
    for low, high in permutations(bounds_of_reduction(stage), 2):
        if low.plus(high) != Affine((), 0):
            continue
        for axis in stage.reduction:
            if low.coefficient(axis.var) != -1:
                continue
            place = low.plus(Affine(((axis.var, 1),), 0))
            least, most = interval_of_form(place, ranges)
            if least >= 0 and most < axis.extent:
                return axis, place
    return None
