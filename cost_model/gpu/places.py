"""Where what the stages of a launch make is kept on a GPU, and what shared memory a block has: the numbers of code generation.

A value is kept in "global" memory, in the "shared" memory of its block, or in the "register"s of a thread: one that every
thread knows, what a thread makes for itself, and *fragments*, of which each thread reads what it has made. A stage whose terms
are divided over threads beyond a warp has shared memory for their parts too.
"""

from __future__ import annotations

import numpy as np

from ...schedules import regions
from ...schedules.extents import Extent
from ...schedules.loops import Loop, LoopKind, LoopTree, Scope, StageLoops, is_full
from ...targets.isa import WARP
from ...tensor.expr import Var
from ..footprint import Value, real
from .patterns import bound_loops

ALIGNED = 128.0  # bytes: each buffer in shared memory begins at a multiple
BOUND = (LoopKind.THREAD, LoopKind.WARP)


def placement(tree: LoopTree, stage: StageLoops) -> str:
    """Where the values of a stage live: "global", "shared" or "register"."""
    definition = tree.definition(stage.stage)
    if stage.at is None or any(t.name in tree.program.outputs for t in definition.tensors):
        return "global"
    if stage.scope is Scope.SHARED:
        return "shared"
    axes = {a.name for a in definition.axes}
    if LoopKind.THREAD in _around(tree, stage) or not _has_team(tree, stage):
        return "register"
    divided = any(x.kind in BOUND and x.axis in axes and not _is_one(x.extent) for x in stage.loops)
    if not divided and all(_is_one(extent) for extent in regions.storage_shape(tree, stage)):
        return "register"
    return "register" if _is_fragment(tree, stage) else "shared"


def shared_bytes(tree: LoopTree, stage: StageLoops, place: str, threads: Value, slots: Value) -> Value:
    """Bytes of shared memory for a stage: its values, `slots` times, and the parts of its sums."""
    total: Value = 0.0
    if place == "shared":
        total = _aligned(real(regions.storage_bytes(tree, stage)) * (slots if stage.copies is not None else 1.0))
    return total + _parts(tree, stage, threads)


def _aligned(size: Value) -> Value:
    return np.ceil(np.maximum(size, 1.0) / ALIGNED) * ALIGNED


def _is_one(extent: Extent) -> bool:
    """Whether an extent is 1, whatever the config."""
    return bool(np.all(np.asarray(extent) == 1))


def _around(tree: LoopTree, stage: StageLoops) -> set[LoopKind]:
    return {x.kind for outer, depth in tree.chain(stage.stage) for x in outer.loops[:depth]}


def _has_team(tree: LoopTree, stage: StageLoops) -> bool:
    root = [outer for outer, _ in tree.chain(stage.stage)][-1]
    inside = [s for s in tree.stages if s is root or any(outer is root for outer, _ in tree.chain(s.stage))]
    return any(loop.kind in BOUND for s in inside for loop in s.loops)


# ---- fragments


def _is_fragment(tree: LoopTree, stage: StageLoops) -> bool:
    """Whether all readers are bound as the stage is, and both write out the rest, so that each thread reads what it made."""
    definition = tree.definition(stage.stage)
    if stage.at is None or stage.tiled or definition.fold is not None or len(definition.tensors) != 1:
        return False
    mine = _pattern(tree, stage, stage.loops, {a.name: a.name for a in definition.axes})
    if mine is None:
        return False
    for consumer in tree.program.consumers[definition.name]:
        reader = tree.by_stage[consumer.name]
        if reader is not tree.by_stage[stage.at[0]] and reader.at != stage.at:
            return False
        inside = reader.loops[reader.position(stage.at[1]) + 1 :] if reader.stage == stage.at[0] else reader.loops
        for read in consumer.reads():
            if read.tensor != definition.name:
                continue
            pairs = zip(definition.axes, read.indices, strict=True)
            names = {index.name: axis.name for axis, index in pairs if isinstance(index, Var)}
            if len(names) < len(definition.axes):
                return False
            theirs = _pattern(tree, reader, inside, names)
            if theirs is None or not _same(mine, theirs):
                return False
    return True


_Pattern = list[tuple[str, LoopKind, Extent, Extent]]


def _pattern(
    tree: LoopTree, stage: StageLoops, loops: tuple[Loop, ...], names: dict[str, str]
) -> tuple[_Pattern, _Pattern] | None:
    """How loops cover axes: the pieces axis by axis, and the bound ones in their order. None if not in full."""
    pieces: _Pattern = []
    bound: _Pattern = []
    for loop in loops:
        axis = names.get(loop.axis)
        if axis is None:
            if loop.kind in BOUND:
                return None
            continue
        if loop.kind not in BOUND and _is_one(loop.extent) and len(stage.pieces(loop.axis)) == 1:
            continue
        if not is_full(tree, stage, loop):
            return None
        kind = loop.kind if loop.kind in (*BOUND, LoopKind.VECTOR) else LoopKind.UNROLL
        pieces.append((axis, kind, loop.extent, loop.stride))
        if loop.kind in BOUND:
            bound.append(pieces[-1])
    return sorted(pieces, key=lambda piece: piece[0]), bound


def _same(mine: tuple[_Pattern, _Pattern], theirs: tuple[_Pattern, _Pattern]) -> bool:
    return all(
        len(a) == len(b)
        and all(
            x[:2] == y[:2] and np.array_equal(np.asarray(x[2]), np.asarray(y[2]))
            and np.array_equal(np.asarray(x[3]), np.asarray(y[3]))
            for x, y in zip(a, b, strict=True)
        )
        for a, b in zip(mine, theirs, strict=True)
    )  # fmt: skip


# ---- parts of sums


def _parts(tree: LoopTree, stage: StageLoops, threads: Value) -> Value:
    """Bytes for the parts of a sum whose terms are divided over threads that shuffles do not reach."""
    definition = tree.definition(stage.stage)
    reduced = {a.name for a in definition.reduction}
    around = _around(tree, stage)
    if LoopKind.THREAD in around or not any(x.kind in BOUND and x.axis in reduced for x in stage.loops):
        return 0.0
    warps = [x for x in reversed(stage.loops) if x.kind is LoopKind.WARP]
    team: Value = float(WARP) if LoopKind.WARP in around else threads
    reach: Value = 1.0
    alone: Value = 1.0  # points that bound loops divide over threads
    left: Value = 1.0  # more than 1: what shuffles leave
    items: Value = 1.0
    for loop in (*bound_loops(stage), *warps):
        extent = real(loop.extent)
        start = np.where(loop.kind is LoopKind.WARP, np.maximum(reach, float(WARP)), reach)
        reach = start * extent
        items = items * extent
        if loop.axis not in reduced:
            alone = alone * extent
            continue
        bits = np.asarray(reach).astype(np.int64)
        shuffled = (bits & (bits - 1) == 0) & (reach <= WARP)
        left = np.where(shuffled, left, left * extent)
    whole = np.where(np.asarray(team) > WARP, np.ceil(team / WARP), 0.0)
    parts = np.where(np.asarray(alone) <= 1.0, whole, np.where(np.asarray(left) > 1.0, team + items, 0.0))
    size = float(max(t.dtype.bytes for t in definition.tensors))
    return np.where(parts > 0.0, _aligned(parts * size), 0.0)
