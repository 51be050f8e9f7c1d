"""Which points of a stage are of any use, where conditions on axes leave some out.

    p[i, j] = exp(s[i, j] - m[i])
    l[i] = sum[j](select(j <= i, p[i, j], 0))         only p[i, j] with j <= i is of use, and only terms with j <= i

A *bound* of a stage is an affine form over its axes: points at which it is greater than zero are of no use. What is computed
there does no harm, and nobody looks at it. Bounds come from two places:

* a reduction whose term is `select(c, x, identity)`, or a fold whose tensors all become `select(c, x, old value)`: terms and
  steps at which c does not hold change nothing. A result that has no such term is wanted all the same (`ending`);
* readers that read a stage only where a condition holds, or only for points of their own that are of use: at those points
  themselves, or at points that lie at affine places of them, or a quotient of these;
* words of narrow elements that are zero: products with them add nothing (words_of_use.py).

Bounds do not depend on the schedule. Loops that they shorten run in blocks, so they run somewhat farther
(codegen/lower/useful.py); how much of them is run on average is `share`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Union

import numpy as np
from numpy.typing import NDArray

from ..tensor.expr import Const, Op, Read, Var
from ..tensor.identity import identity
from ..tensor.indices.affine import interval_of_form
from ..tensor.indices.bounds import Bound, bounds_of, bounds_of_all, bounds_where_read, reads_under_bounds
from ..tensor.program import Program, Stage
from ..tensor.rewrites.dot_words import is_packed
from ..tensor.stage_edits import axis_ranges
from .extents import Extent
from .loops import Loop, LoopKind, StageLoops
from .recording import Column
from .words_of_use import terms_of_words

RealNumber = Union[float, NDArray[np.float64], Column]
SAMPLES = 16
GOLDEN = 0.381966  # spreads the places of a second axis evenly over those of the first


def useful(program: Program) -> dict[str, tuple[Bound, ...]]:
    """Returns the bounds of each stage that has some, of those that leave points out."""
    found: dict[str, frozenset[Bound]] = {}
    with_words: dict[str, frozenset[Bound]] = {}
    for stage in reversed(program.stages):
        bounds = _own(stage) | _of_readers(program, stage, found)
        found[stage.name] = _leaving_out(stage, bounds)
        with_words[stage.name] = found[stage.name] | _leaving_out(stage, terms_of_words(program, stage))
    return {name: tuple(sorted(bounds, key=str)) for name, bounds in with_words.items() if bounds}


def _leaving_out(stage: Stage, bounds: frozenset[Bound]) -> frozenset[Bound]:
    """Returns those of some bounds that leave out points."""
    ranges = axis_ranges(stage)
    return frozenset(form for form in bounds if interval_of_form(form, ranges)[1] > 0)


def _own(stage: Stage) -> frozenset[Bound]:
    """Returns the bounds beyond which the terms of a reduction, or the steps of a fold, change nothing.

    Those that leave a result without any term are not among them.
    """
    if stage.combiner is None:
        return frozenset()
    found: frozenset[Bound] = frozenset()
    if stage.fold is not None:
        found = frozenset.intersection(*(_step(stage, number) for number in range(len(stage.tensors))))
    else:
        match stage.bodies[0]:
            case Op(name="select", args=(condition, _, Const(value=value) as other)):
                if value == identity(stage.combiner or "", other.dtype).value:
                    found = bounds_of(condition)
    return frozenset(form for form in found if _is_of_terms(stage, form))


def _is_of_terms(stage: Stage, bound: Bound) -> bool:
    """Tells whether a bound is one of a stage's terms or steps, rather than of its results."""
    return any(axis.name in bound.coefficients for axis in stage.reduction)


def ending(stage: Stage, bounds: tuple[Bound, ...], axis: str, begun: bool = False) -> tuple[Bound, ...]:
    """Returns the bounds that end the loops of an axis.

    Loops over results do not end where there are no more terms, since the results have to be written; but for those that
    only add to results which have `begun` before.
    """
    free = begun or any(a.name == axis for a in stage.reduction)
    return tuple(b for b in bounds if b.coefficient(Var(axis)) > 0 and (free or not _is_of_terms(stage, b)))


def _step(stage: Stage, number: int) -> frozenset[Bound]:
    """Returns the bounds beyond which a step leaves a tensor of a fold as it is."""
    tensor = stage.tensors[number]
    old = Read(tensor.name, tuple(a.var for a in stage.axes_of(number)), tensor.dtype)
    match stage.bodies[number]:
        case Op(name="select", args=(condition, _, other)) if other == old:
            return bounds_of(condition)
    return frozenset()


def _of_readers(program: Program, stage: Stage, found: dict[str, frozenset[Bound]]) -> frozenset[Bound]:
    """Returns the bounds common to all reads of a stage, if it makes floats: an integer not computed may be divided by."""
    names = [tensor.name for tensor in stage.tensors]
    if set(names) & set(program.outputs) or stage.fold is not None:
        return frozenset()
    if not all(tensor.dtype.is_float for tensor in stage.tensors) and not is_packed(stage):
        return frozenset()
    axes = {name: [axis.name for axis in stage.axes_of(number)] for number, name in enumerate(names)}
    readers = {reader.name: reader for name in names for reader in program.consumers[name]}
    found_there = (
        bounds_where_read(bounds, read.indices, axes[read.tensor])
        for reader in readers.values()
        for expr in reader.expressions
        for read, bounds in reads_under_bounds(expr, found[reader.name])
        if read.tensor in axes
    )
    return bounds_of_all(found_there, axis_ranges(stage))


def ends_early(stage: StageLoops, loop: Loop) -> Extent | None:
    """Returns in blocks of how many points a loop can end early; None for a loop that cannot.

    The outermost loop of an axis can, in blocks of the innermost one that is run trip by trip; not one whose only trip is
    written out.
    """
    pieces = stage.pieces(loop.axis)
    if loop is not pieces[0] or loop.kind is not LoopKind.SERIAL:
        return None
    last = [piece for piece in pieces if piece.kind is LoopKind.SERIAL][-1]
    if last is loop and loop.runs_once:
        return None
    return last.stride


def points_of_use(stage: Stage, bounds: tuple[Bound, ...]) -> int:
    """Counts the points of a stage that its bounds leave."""
    involved = [a for a in stage.all_axes if any(a.name in form.coefficients for form in bounds)]
    rest = prod(a.extent for a in stage.all_axes if a not in involved)
    if not involved:
        return rest
    last = involved[-1]
    grid = np.meshgrid(*(np.arange(a.extent) for a in involved[:-1]), indexing="ij", sparse=True)
    low, high = np.zeros((), np.int64), np.full((), last.extent, np.int64)
    for form in bounds:
        total = np.full((), form.constant, np.int64)
        for axis, values in zip(involved[:-1], grid, strict=True):
            total = total + form.coefficient(axis.var) * values
        own = form.coefficient(last.var)
        if own > 0:  # own * x + total <= 0
            high = np.minimum(high, -total // own + 1)
        elif own < 0:
            low = np.maximum(low, -(total // own))
        else:
            high = np.where(total <= 0, high, 0)
    shape = tuple(a.extent for a in involved[:-1])
    return rest * int(np.broadcast_to(np.maximum(high - low, 0), shape).sum())


def share(
    extents: dict[str, int], bound: Bound, axis: str, sizes: Mapping[str, RealNumber], step: RealNumber
) -> RealNumber:
    """Returns the share of an axis that a loop runs over on average, where the bound ends it.

    sizes: how many points of each other axis the loops around have come to where the loop opens; `step`: to a multiple of what
    the end is rounded up. An average over `SAMPLES` places of these blocks, spread evenly.
    """
    others = [(name, c) for name, c in bound.coefficients.items() if name != axis]
    own, extent = bound.coefficient(Var(axis)), extents[axis]
    total: RealNumber = 0.0
    for sample in range(SAMPLES):
        least: RealNumber = float(bound.constant)
        for number, (name, coefficient) in enumerate(others):
            size = np.minimum(sizes[name], extents[name])
            place = ((sample + 0.5) / SAMPLES + number * GOLDEN) % 1.0 * extents[name]
            first = np.floor(place / size) * size
            least = least + coefficient * (first if coefficient > 0 else first + size - 1)
        needed = np.floor(-least / own) + 1
        run = np.maximum(np.ceil(needed / step) * step, step)
        total = total + np.minimum(run, extent) / extent
    return total / SAMPLES
