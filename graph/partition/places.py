"""Where in memory a stage reads a tensor: at the place that it writes, or elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...tensor.dtype import i64
from ...tensor.expr import Const, Expr, Read, substitute
from ...tensor.indices.affine import Affine, affine, simplify, to_expr
from ...tensor.program import Program, Stage


def same_place(program: Program, stage: Stage, read: Read) -> bool:
    """True where the element read lies in its tensor where the element written lies in the stage's, and both tensors have as
    many: shapes may differ, what counts is the order of memory."""
    shape = program.tensors[read.tensor].shape
    return prod(shape) == prod(a.extent for a in stage.axes) and distance(program, stage, read) == 0


def distance(program: Program, stage: Stage, read: Read, at: Mapping[str, int] | None = None) -> int | None:
    """Counts how many elements behind the place of the element written the element read lies, each in its own tensor; None
    where that differs from element to element. `at`: points of axes, where it is asked for these alone."""
    own = _flat(tuple(a.var for a in stage.axes), tuple(a.extent for a in stage.axes), stage, at or {})
    apart = _flat(read.indices, program.tensors[read.tensor].shape, stage, at or {}).minus(own)
    return apart.constant if apart.is_constant else None


def _flat(indices: tuple[Expr, ...], shape: tuple[int, ...], stage: Stage, at: Mapping[str, int]) -> Affine:
    """The place of an element in row-major order. Quotients and remainders of one number come together again; an axis with one
    point is 0."""
    points: dict[str, Expr] = {a.name: Const(0, i64) for a in stage.all_axes if a.extent == 1}
    points |= {name: Const(point, i64) for name, point in at.items()}
    bounds = {a.name: (0, a.extent - 1) for a in stage.all_axes}
    place, step = Affine((), 0), 1
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        place = place.plus(affine(simplify(substitute(index, points), bounds)), step)
        step *= extent
    return affine(simplify(to_expr(place), bounds))


def copied(program: Program, stage: Stage) -> str | None:
    """The tensor that a stage repeats element for element in the order of memory: of a reshape its source. None otherwise."""
    if stage.combiner is not None or len(stage.tensors) != 1:
        return None
    body = stage.bodies[0]
    if not isinstance(body, Read) or body.dtype != stage.tensors[0].dtype:
        return None
    return body.tensor if same_place(program, stage, body) else None
