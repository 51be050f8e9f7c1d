"""Whether the values of an attached stage can be held in registers: which element is meant has to be known when the code is
written, and lanes that are written have to be those that are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set

from ...tensor.expr import Expr, Read, Var, reads, variables
from ...tensor.indices.scatter import scattered
from ...tensor.program import Stage
from ..extents import Condition, Extent
from ..loops import Loop, LoopKind, LoopTree, StageLoops, is_full
from ..regions import full_tile
from .conditions import every, same

# Vectors that LLVM loads side by side: where sums leave no room for them, steps are kept apart (codegen/emit/steps.py).
NEAR_LOADS = 4


def rows_of(values: Iterable[Expr], vectors: Set[str]) -> int:
    """Counts the rows of vectors that one step of a sum takes from one tensor: two where words are added to those beside them
    before they are multiplied. LLVM loads as many side by side of each."""
    found: dict[str, set[Read]] = defaultdict(set)
    for value in values:
        for read in reads(value):
            if any(not vectors.isdisjoint(variables(index)) for index in read.indices):
                found[read.tensor].add(read)
    return max((len(rows) for rows in found.values()), default=1)


def unrolls(tree: LoopTree, stage: StageLoops) -> bool:
    """True when an attached stage and its one reader reach every point by full pieces only: which element of a buffer that is
    then is known when the code is written."""
    if stage.at is None or not _reader_alone(tree, stage) or scattered(tree.definition(stage.stage)) is not None:
        return False
    outer = tree.by_stage[stage.at[0]]
    own = all(is_full(tree, stage, loop) for loop in _own(tree, stage))
    return own and all(is_full(tree, outer, loop) for loop in _inside(tree, stage))


def fits_registers(tree: LoopTree, stage: StageLoops) -> Condition:
    """Says whether both the stage and its one reader reach every point by full pieces only, in lanes of one width."""
    definition = tree.definition(stage.stage)
    if stage.at is None or stage.tiled or len(definition.tensors) != 1 or not unrolls(tree, stage):
        return False
    if not (_own(tree, stage) or _inside(tree, stage)):
        return True
    return _same_lanes(tree, stage, tree.by_stage[stage.at[0]], definition)


def _reader_alone(tree: LoopTree, stage: StageLoops) -> bool:
    """Says whether all readers of a stage are the one that it is attached to."""
    readers = tree.program.consumers[stage.stage]
    return stage.at is not None and [reader.name for reader in readers] == [stage.at[0]]


def _own(tree: LoopTree, stage: StageLoops) -> list[Loop]:
    axes = {axis.name for axis in tree.definition(stage.stage).axes}
    return [loop for loop in stage.loops if loop.axis in axes]


def _inside(tree: LoopTree, stage: StageLoops) -> tuple[Loop, ...]:
    """The reader's loops inside of the one where the stage is attached."""
    assert stage.at is not None
    outer = tree.by_stage[stage.at[0]]
    return outer.loops[outer.position(stage.at[1]) + 1 :]


def _same_lanes(tree: LoopTree, stage: StageLoops, outer: StageLoops, definition: Stage) -> Condition:
    """Both sides cover the same tile along each axis, with the vectorized pieces alike (or no vectors at all)."""
    reads = [read for read in tree.definition(outer.stage).reads() if read.tensor == definition.name]
    if len(reads) != 1:
        return False
    found: list[Condition] = []
    for axis, index in zip(definition.axes, reads[0].indices, strict=True):
        if not isinstance(index, Var):
            return False
        mine, theirs = _vectors(stage, axis.name), _vectors(outer, index.name)
        if len(mine) != len(theirs):
            return False
        found += [same(a, b) for a, b in zip(mine, theirs, strict=True)]
        found.append(same(full_tile(tree, stage, axis.name), full_tile(tree, outer, index.name)))
    return every(found)


def _vectors(stage: StageLoops, axis: str) -> list[Extent]:
    return [piece.extent for piece in stage.pieces(axis) if piece.kind is LoopKind.VECTOR]
