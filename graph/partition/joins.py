"""Joins that cost nothing: what a stage puts side by side is written there by those that compute it.

A join is a pointwise stage that takes each element from one of several tensors, as a concat does. Along the outermost axis that
has more than one point, its parts follow one another in memory; along any other each lies in rows:

    c[h, w, c: 192]:   64 elements of a, 128 of b, 64 of a, 128 of b, ...

Where a join is the beginning of a larger one, as those of dense blocks are, it lies there too, and nothing is copied at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from ...codegen.rows import PitchedRows
from ...tensor.expr import Expr, Read
from ...tensor.program import Axis, Program, Stage
from ..place import Inside, TensorPlace
from ..rewrites.pieces import pieces_of
from .places import distance


@dataclass(frozen=True, slots=True)
class JoinedPart:
    """A tensor that a join takes as it is: at which element of the join it begins, and in which rows it lies there."""

    tensor: str
    elements: int
    start: int
    rows: PitchedRows | None


def parts_of_join(program: Program, stage: Stage) -> list[JoinedPart] | None:
    """The tensors that a stage puts side by side; None where it does anything else."""
    if stage.combiner is not None or len(stage.tensors) != 1:
        return None
    for axis in stage.axes:
        pieces = list(pieces_of(stage.bodies[0], axis, 0, axis.extent)) if axis.extent > 1 else []
        if len(pieces) > 1:
            parts = [_part(program, stage, axis, *piece) for piece in pieces]
            names = {part.tensor for part in parts if part is not None}
            return [part for part in parts if part is not None] if len(names) == len(parts) else None
    return None


def _part(program: Program, stage: Stage, axis: Axis, start: int, end: int, value: Expr) -> JoinedPart | None:
    """The part that a join has from `start` to `end` of an axis, if that is one tensor in its own order."""
    if not isinstance(value, Read) or value.dtype != stage.tensors[0].dtype:
        return None
    place = stage.axes.index(axis)
    lines, step = (prod(a.extent for a in axes) for axes in (stage.axes[:place], stage.axes[place + 1 :]))
    length = (end - start) * step
    if prod(program.tensors[value.tensor].shape) != lines * length:
        return None
    own = replace(stage, axes=tuple(replace(a, extent=end - start) if a is axis else a for a in stage.axes))
    one = {axis.name: start} if end - start == 1 else None  # what is one point need not move with the axis
    if distance(program, own, value, one) != -start * step:
        return None
    rows = PitchedRows(length, axis.extent * step) if lines > 1 else None
    return JoinedPart(value.tensor, lines * length, start * step, rows)


@dataclass(frozen=True)
class Joins:
    """Says which tensors lie inside of others. `inside`: tensor -> its place in another one. `laid`: joins that no kernel needs
    to make, as all their parts lie in them."""

    inside: Inside
    laid: frozenset[str]


def joins_of(
    program: Program,
    root: Callable[[str], str],
    is_stored: Callable[[str], bool],
    refused: frozenset[str] = frozenset(),
) -> Joins:
    """Tells where tensors lie, the largest joins first.

    Args:
        root: the tensor whose memory another one has as a whole.
        is_stored: tells of a tensor that is no join whether a kernel of this program writes it to memory in any case.
        refused: joins that are computed as any other stage.
    """
    found = {stage.name: parts for stage in program.stages if (parts := parts_of_join(program, stage))}
    inner = {name: parts for name, parts in found.items() if name not in program.outputs and name not in refused}
    inside: dict[str, TensorPlace] = {}
    laid: set[str] = set()
    for join in sorted(inner, key=lambda name: -prod(program.tensors[name].shape)):
        size = program.tensors[join].dtype.bytes
        parts = [replace(part, tensor=root(part.tensor)) for part in inner[join]]
        around = inside.get(join) or _around([inside.get(part.tensor) for part in parts], parts) or TensorPlace(join)
        wanted = {part.tensor: around.of_part(part.start, part.elements, part.rows) for part in parts}
        placed = {name: place for name, place in wanted.items() if place is not None}
        missing = [name for name in placed if name not in inside]
        if len(placed) < len(parts) or any(inside.get(name, place) != place for name, place in placed.items()):
            continue  # a part lies elsewhere
        if not all((name in inner or is_stored(name)) and placed[name].is_aligned(size) for name in missing):
            continue
        if around.tensor != join:
            inside[join] = around
        inside |= placed
        laid.add(join)
    return Joins(inside, frozenset(laid))


def _around(known: Sequence[TensorPlace | None], parts: Sequence[JoinedPart]) -> TensorPlace | None:
    """Tells where a join lies if all its parts lie somewhere already, by the first of them."""
    first = known[0]
    return first.around(parts[0].start, parts[0].rows) if first is not None and all(known) else None
