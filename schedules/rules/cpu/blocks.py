"""Blocks of rows of a pointwise stage, for stencils that are streamed: y[i, j] = x[i, j] + x[i + 1, j] + ...

Rows that are written out side by side read many of the same places. What two of them read, or compute alike, is there once.
"""

from __future__ import annotations

from ....tensor.expr import Var
from ....tensor.indices.affine import affine
from ....tensor.indices.forms import Terms
from ....tensor.program import Stage
from ...schedule import LoopHandle, Schedule, StageHandle

ROWS_AT_MOST = 8


def axis_of_blocks(stage: Stage, vector: str) -> str | None:
    """Returns the last axis, that of the vectors apart, along which a pointwise stage reads places that its neighbours read."""
    if stage.combiner is not None:
        return None
    alike: dict[tuple[str, tuple[Terms, ...]], list[tuple[int, ...]]] = {}
    for read in stage.reads():
        places = [affine(index) for index in read.indices]
        moves = (read.tensor, tuple(place.terms for place in places))
        alike.setdefault(moves, []).append(tuple(place.constant for place in places))
    found = {
        terms[0][0].name
        for (_, indices), constants in alike.items()
        for terms, values in zip(indices, zip(*constants, strict=True), strict=True)
        if len(terms) == 1 and len({*values}) > 1 and isinstance(terms[0][0], Var)
    }
    return next((a.name for a in reversed(stage.axes) if a.name in found and a.name != vector), None)


def by_blocks(
    s: Schedule, stage: StageHandle, loops: dict[str, LoopHandle], down: str, vector: str
) -> tuple[list[LoopHandle], tuple[LoopHandle, ...]]:
    """Runs a stage by blocks of rows, one vector wide: few values wait in registers. Returns the loops outside of a block, and
    those over vectors."""
    pieces = s.split(loops[vector], 1, s.lanes(stage.definition.tensors[0].dtype))
    block = s.factor(f"{stage.definition.name}.rows", loops[down].extent, at_most=ROWS_AT_MOST, default=4)
    outer, rows = s.split(loops[down], block)
    others = [outer if a.name == down else loops[a.name] for a in stage.definition.axes if a.name != vector]
    s.reorder(*others, *pieces[:2], rows, pieces[2])
    s.unroll(rows)
    return [*others, pieces[0]], pieces
