"""Reads as most code has them: inside of all borders, where clamps leave indices as they are (codegen/lower/interior.py).

Of elements a few apart the vectors are loaded that other reads need as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ...schedules.loops import Loop
from ...tensor.expr import Const, Expr, Op, Read, rewrite, variables
from ...tensor.indices.affine import affine
from ...tensor.indices.bounds import bound_of, conjuncts
from ...tensor.program import Stage
from ..footprint import Value, real
from ..levels import StageLevels
from ..operations import guarded_reads, unguarded


@lru_cache(maxsize=512)
def inside(stage: Stage) -> Stage:
    """A stage as most of its tiles compute it: nothing that it reads is at an edge."""
    return replace(stage, bodies=tuple(rewrite(body, _unclamped) for body in stage.bodies))


def spanned(read: Read, step: int) -> tuple[object, ...]:
    """Returns what names the vectors that a read of every `step`th element picks from: every other of x[2 * j] and x[2 * j + 1]
    lie in the same ones."""
    forms = [affine(index) for index in read.indices]
    last = forms[-1].constant
    places = tuple(form.terms for form in forms), tuple(form.constant for form in forms[:-1])
    return read.tensor, *places, last // step


def _unclamped(node: Expr) -> Expr | None:
    if not isinstance(node, Read) or node.indices == (indices := tuple(map(_plain, node.indices))):
        return None
    return replace(node, indices=indices)


def _plain(index: Expr) -> Expr:
    """An index without the bounds around it."""
    while isinstance(index, Op) and index.name in ("min", "max"):
        left, right = index.args
        if isinstance(right, Const):
            index = left
        elif isinstance(left, Const):
            index = right
        else:
            break
    return index


def bodies(stage: StageLevels, computed: Stage, vector: Loop | None) -> list[tuple[Stage, Value]]:
    """Returns what tiles of a stage compute, and the part of them that do: those inside of all borders ask nothing. Questions
    about a whole vector are scalars, which leave the ports of vectors alone."""
    guards = [guard for guards in guarded_reads(computed).values() for guard in guards]
    if not guards:
        return [(computed, 1.0)]
    if not _differ(guards, vector):
        return [(unguarded(computed), 1.0)]
    part = at_borders(stage, guards)
    return [(computed, part), (unguarded(computed), 1.0 - part)]


def masked_reads(stage: StageLevels, computed: Stage, vector: Loop | None) -> dict[Read, Value]:
    """Says what is read under masks, and in what part of the tiles. A question about a whole vector chooses an address."""
    found = guarded_reads(computed).items()
    return {read: at_borders(stage, guards) for read, guards in found if _differ(guards, vector)}


def _differ(guards: Iterable[Expr], vector: Loop | None) -> bool:
    """Says whether any of some conditions differs from lane to lane."""
    return vector is not None and any(vector.axis in variables(guard) for guard in guards)


def at_borders(stage: StageLevels, guards: Iterable[Expr]) -> Value:
    """Returns the part of the tiles of a stage that ask what there is to read: those of which a point lies at a border. All of
    them where guards are no bounds of single axes."""
    points = {axis.name: axis.extent for axis in stage.definition.axes}
    terms = {axis.name: axis.extent for axis in stage.definition.reduction}
    failing: dict[tuple[str, bool], int] = {}
    for bound in (bound_of(part) for guard in guards for part in conjuncts(guard)):
        moving = [] if bound is None else [name for name in bound.coefficients if name in points]
        if bound is None or len(moving) > 1 or not bound.coefficients.keys() <= points.keys() | terms.keys():
            return 1.0
        for name in moving:
            times, most = bound.coefficients[name], bound.constant
            most += sum(c * (terms[other] - 1) for other, c in bound.coefficients.items() if other in terms and c > 0)
            fails = points[name] - 1 - -most // times if times > 0 else -(-most // -times)
            key = name, times > 0
            failing[key] = max(failing.get(key, 0), min(max(fails, 0), points[name]))
    inside: Value = 1.0
    for name, extent in points.items():
        tile: Value = 1.0
        for loop in stage.straight:
            tile = tile * (real(loop.extent) if loop.axis == name else 1.0)
        first = np.ceil(failing.get((name, False), 0) / tile)
        last = np.floor((extent - failing.get((name, True), 0)) / tile)  # the tile at the end may have fewer points
        tiles = np.ceil(extent / tile)
        whole = np.where(failing.get((name, True), 0) > 0, last, tiles)
        inside = inside * np.maximum(whole - first, 0.0) / tiles
    return 1.0 - inside


def ragged_ends(stage: StageLevels, vector: Loop, copies: Callable[[frozenset[str]], Value], vectors: Value) -> Value:
    """Lanes that are read one by one at the ends of the rows of a piece: a block that is not full asks where the edges of the
    tensors are, also far inside of them. `copies`, `vectors`: of the straight code (work.py)."""
    asking = set(stage.definition.reads()) - set(inside(stage.definition).reads())
    moving = sum(any(vector.axis in variables(index) for index in read.indices) for read in asking)
    along = [n for n, loop in enumerate(stage.loops.loops[: stage.body]) if loop.axis == vector.axis]
    if stage.loops.at is None or not along or not moving:
        return 0.0
    lanes = real(vector.extent) / vectors
    block = copies(frozenset((vector.axis,))) * lanes
    size = stage.sizes[0][vector.axis]
    ragged = np.where(np.ceil(size / block) * block > size, 1.0, 0.0)
    everything = copies(frozenset(axis.name for axis in stage.definition.all_axes))
    return ragged * moving * stage.trips[along[-1]] * everything * lanes
