"""Who runs a stage on a GPU, and which of its values a thread finds in its own registers.

A *fragment* is a team's tile of which each thread holds what it makes, because all readers are bound alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...targets.backend import Multiprocessor
from ...tensor.expr import Read, Var
from ..extents import Condition, Extent, maximum, minimum, product, round_up
from ..loops import Loop, LoopKind, LoopTree, StageLoops, is_full
from .conditions import every, opposite, same, some

BOUND = (LoopKind.THREAD, LoopKind.WARP)
GRID = (LoopKind.BLOCK, LoopKind.PARALLEL)  # loops made for the threads of a CPU count as blocks
Dimension = tuple[str, Extent, Extent]  # axis, stride, extent


def bound(stage: StageLoops, *kinds: LoopKind) -> list[Loop]:
    """The loops of these kinds (by default those over threads and warps), the fastest first."""
    found = [loop for loop in reversed(stage.loops) if loop.kind in (kinds or BOUND)]
    return sorted(found, key=lambda loop: loop.dimension)


def level(tree: LoopTree, stage: StageLoops) -> LoopKind:
    """Says which team runs a stage: BLOCK, WARP or THREAD (one alone)."""
    found = LoopKind.BLOCK
    for outer, depth in tree.chain(stage.stage):
        kinds = {loop.kind for loop in outer.loops[:depth]}
        if LoopKind.THREAD in kinds:
            return LoopKind.THREAD
        if LoopKind.WARP in kinds:
            found = LoopKind.WARP
    return found


def root_of(tree: LoopTree, stage: StageLoops) -> StageLoops:
    """The root of the nest that a stage runs in."""
    return [stage, *(outer for outer, _ in tree.chain(stage.stage))][-1]


def members(tree: LoopTree, root: StageLoops) -> list[StageLoops]:
    """A root and all that runs inside of it."""
    return [s for s in tree.stages if root_of(tree, s) is root]


def threads_of(tree: LoopTree, root: StageLoops, gpu: Multiprocessor) -> Extent:
    """Says how many threads of a block have something to do: what its bound loops ask for, else those of the stages attached to
    it that the block runs together."""
    most = gpu.block_threads
    if bound(root):
        return minimum(_wanted(root, gpu.warp), most)
    wanted: Extent = 1
    for stage in members(tree, root):
        if stage is not root and level(tree, stage) is LoopKind.BLOCK:
            wanted = maximum(wanted, _wanted(stage, gpu.warp))
    return minimum(wanted, most)


def blocks_of(root: StageLoops) -> Extent:
    """Says how many blocks a root is divided over."""
    return product([loop.extent for loop in root.loops if loop.kind in GRID])


def width_of(threads: Extent, gpu: Multiprocessor) -> Extent:
    """The threads that a block has, of which so many have something to do: whole warps, or one alone."""
    several = minimum(threads - 1, 1)
    return several * round_up(threads, gpu.warp) + (1 - several) * 1


def _wanted(stage: StageLoops, warp: int) -> Extent:
    warps = bound(stage, LoopKind.WARP)
    if warps:
        return product([loop.extent for loop in warps]) * warp
    return product([loop.extent for loop in bound(stage, LoopKind.THREAD)])


def runs_alone(tree: LoopTree, stage: StageLoops) -> bool:
    """Says whether each thread makes a stage for itself."""
    if level(tree, stage) is LoopKind.THREAD:
        return True
    return not any(bound(s) for s in members(tree, root_of(tree, stage)))


def shared_out(tree: LoopTree, stage: StageLoops) -> Condition:
    """Says whether bound loops of spatial axes divide the points over threads, so that not all of them know each."""
    axes = {axis.name for axis in tree.definition(stage.stage).axes}
    return opposite(every(same(loop.extent, 1) for loop in bound(stage) if loop.axis in axes))


# ---- fragments -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """A loop as it covers an axis."""

    extent: Extent
    stride: Extent
    is_bound: bool
    is_vector: bool


@dataclass(frozen=True, slots=True)
class _Cover:
    """Says how loops cover a tile: the pieces of each axis, and the bound ones in the order in which they count.

    left_out: axes whose one piece need not be a loop where it has one trip: the one row of a team, which one side has a loop
    for and the other has not. `whole`: of each axis whether its pieces run in full.
    """

    pieces: dict[str, list[_Piece]]
    whole: dict[str, bool]
    left_out: frozenset[str]
    order: list[tuple[int, str, LoopKind, Extent, Extent]]


def is_fragment(tree: LoopTree, stage: StageLoops) -> Condition:
    """Says whether all readers are bound as the stage is, and both write out the rest, so that each thread reads what it
    made."""
    definition = tree.definition(stage.stage)
    if stage.at is None or stage.tiled or definition.fold is not None or len(definition.tensors) != 1:
        return False
    mine = _cover(tree, stage, stage.loops, {axis.name: axis.name for axis in definition.axes})
    if mine is None:
        return False
    found: list[Condition] = []
    for consumer in tree.program.consumers[definition.name]:
        reader = tree.by_stage[consumer.name]
        if reader is not tree.by_stage[stage.at[0]] and reader.at != stage.at:
            return False
        around = reader.position(stage.at[1]) + 1 if reader.stage == stage.at[0] else 0
        for read in consumer.reads():
            if read.tensor != definition.name:
                continue
            names = _axes_read(read, [axis.name for axis in definition.axes])
            theirs = None if names is None else _cover(tree, reader, reader.loops[around:], names)
            if theirs is None:
                return False
            found.append(_alike(mine, theirs))
    return every(found)


def fragment(tree: LoopTree, stage: StageLoops) -> tuple[Dimension, ...]:
    """The dimensions of what each thread holds of a fragment."""
    return tuple(
        (loop.axis, loop.stride, loop.extent)
        for axis in tree.definition(stage.stage).axes
        for loop in stage.pieces(axis.name)
        if loop.kind not in BOUND
    )


def _axes_read(read: Read, axes: list[str]) -> dict[str, str] | None:
    """Axis of the reader -> axis of what it reads; None where an index is no axis, or one that another index is too."""
    names: dict[str, str] = {}
    for axis, index in zip(axes, read.indices, strict=True):
        if not isinstance(index, Var) or index.name in names:
            return None
        names[index.name] = axis
    return names


def _cover(tree: LoopTree, stage: StageLoops, loops: tuple[Loop, ...], names: dict[str, str]) -> _Cover | None:
    """Says how loops cover axes; None where bound ones are of others. `names`: axis of the stage -> what it is called here."""
    cover = _Cover({name: [] for name in names.values()}, dict.fromkeys(names.values(), True), frozenset(), [])
    left_out = set()
    for loop in loops:
        axis = names.get(loop.axis)
        if axis is None:
            if loop.kind in BOUND:
                return None
            continue
        if loop.kind not in BOUND and len(stage.pieces(loop.axis)) == 1:
            left_out.add(axis)
        if not is_full(tree, stage, loop):
            cover.whole[axis] = False
        is_bound = loop.kind in BOUND
        cover.pieces[axis].append(_Piece(loop.extent, loop.stride, is_bound, loop.kind is LoopKind.VECTOR))
        if is_bound:
            cover.order.append((loop.dimension, axis, loop.kind, loop.extent, loop.stride))
    return _Cover(cover.pieces, cover.whole, frozenset(left_out), cover.order)


def _alike(mine: _Cover, theirs: _Cover) -> Condition:
    if [x[:3] for x in mine.order] != [x[:3] for x in theirs.order]:
        return False
    pairs = zip(mine.order, theirs.order, strict=True)
    bound_alike = every(c for a, b in pairs for c in (same(a[3], b[3]), same(a[4], b[4])))
    return every((bound_alike, *(_axis_alike(mine, theirs, axis) for axis in mine.pieces)))


def _axis_alike(mine: _Cover, theirs: _Cover, axis: str) -> Condition:
    """Says whether both cover an axis by the same pieces, those of one trip left out where that is allowed."""
    options = [(a, b) for a in _options(mine, axis) for b in _options(theirs, axis)]
    return some(every((mine_if, theirs_if, _pieces_alike(a, b))) for (a, mine_if), (b, theirs_if) in options)


def _options(cover: _Cover, axis: str) -> list[tuple[list[_Piece], Condition]]:
    """The pieces of an axis with, and without, those that may be left out, and where each is meant."""
    pieces = cover.pieces[axis]
    if axis not in cover.left_out:
        return [(pieces, cover.whole[axis])]
    once = same(pieces[0].extent, 1)
    return [([], once), (pieces, every((opposite(once), cover.whole[axis])))]


def _pieces_alike(mine: list[_Piece], theirs: list[_Piece]) -> Condition:
    kinds = [[(piece.is_bound, piece.is_vector) for piece in pieces] for pieces in (mine, theirs)]
    if kinds[0] != kinds[1]:
        return False
    pairs = list(zip(mine, theirs, strict=True))
    return every([*(same(a.extent, b.extent) for a, b in pairs), *(same(a.stride, b.stride) for a, b in pairs)])
