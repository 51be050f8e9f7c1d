"""Reads as most of the code has them: inside of all borders, where clamps leave indices as they are (codegen/lower/interior.py).

Of elements a few apart the vectors are loaded that other reads need as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ...schedules.loops import Loop
from ...tensor.expr import Const, Expr, Op, Read, rewrite, variables
from ...tensor.indices.affine import affine
from ...tensor.program import Stage
from ..footprint import Value, real
from ..levels import StageLevels


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
