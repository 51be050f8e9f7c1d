"""The rule for reductions at computed places, histograms among them (tensor/indices/scatter.py): no loop goes over places.

    other axes, block of places, terms, rows side by side, [members], vectors, lanes

* Axes that are no places are independent: threads share them. They are batches, or the parts of a long reduction, each with
  sums of its own that are added up in the end (split.py). Some rows are done side by side, since an addition waits for the
  last one to the same place.
* Where a place holds a row of its own that lies in memory in order, the row is in vectors.
* Places may be shared as well: each thread looks at all terms, and adds those that meet its block.
* A stage that goes over the places one by one does not take such a reduction in: it would look at all terms for each of them.
"""

from __future__ import annotations

from ....tensor.expr import variables
from ....tensor.indices.members import member_axes
from ....tensor.indices.scatter import scattered
from ....tensor.program import Program, Stage
from ...access import output_stride
from ...extents import ceildiv
from ...schedule import Schedule
from ..rule import Decided, Rule, nests_of_their_own

SIDE_BY_SIDE = 8  # rows
VECTORS_AT_MOST = 8
BLOCKS_AT_MOST = 64


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    return stage.name if scattered(stage) is not None else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    """Schedules a reduction at computed places."""
    stage = s.stage(root)
    definition = stage.definition
    found = scattered(definition)
    assert found is not None
    loops = dict(zip((a.name for a in definition.all_axes), stage.loops, strict=True))
    row = _row(definition)
    members = [loops[a] for a in member_axes(definition) if a != row]
    others = [loops[a.name] for a in definition.axes if a.name not in found.places and a.name != row]
    others = [loop for loop in others if loop not in members]
    first, *more = (loops[axis] for axis in found.places)
    blocks = s.factor(f"{root}.blocks", first.extent, at_most=BLOCKS_AT_MOST, default=1 if others else 2)
    outer, inner = s.split(first, ceildiv(first.extent, blocks))
    lanes = members
    if row is not None:
        vectors = s.factor(f"{root}.vectors", at_most=VECTORS_AT_MOST, default=4)
        along, unrolled, vector = s.split(loops[row], vectors, s.lanes(definition.tensors[0].dtype))
        s.unroll(unrolled)
        s.vectorize(vector)
        others, lanes = [*others, along], [*members, unrolled, vector]
    elif others:
        together = s.factor(f"{root}.rows", s.most(others[-1]), at_most=SIDE_BY_SIDE, default=4)
        rows, side = s.split(others[-1], together)
        s.unroll(side)
        others, lanes = [*others[:-1], rows], [side, *members]
    s.unroll(*members)
    s.reorder(*others, outer, *stage.reduction, inner, *more, *lanes)
    s.parallel(*others, outer)
    return {root}


def _row(stage: Stage) -> str | None:
    """The axis along which what one term adds lies in memory in order."""
    found = scattered(stage)
    assert found is not None
    for axis in stage.axes:
        moves = any(axis.name in variables(place) for place in (*found.places.values(), *found.guards))
        if axis.name not in found.places and output_stride(stage, axis.name) == 1 and not moves:
            return axis.name
    return None


def whole_scatters(program: Program) -> frozenset[str]:
    """Returns the reductions at computed places that rows of another stage would cut: their places lie along rows."""
    found = {stage.name: scattered(stage) for stage in program.stages}
    return frozenset(
        stage.name
        for stage in program.stages
        if (one := found[stage.name]) is not None and {axis.name for axis in stage.axes[:-1]} & one.places.keys()
    )


SCATTER = Rule("scatter", matches=_matches, apply=_apply)
SCATTERS_APART = Rule("scatters apart", nests_of_their_own(whole_scatters))
