"""Where intermediate tensors live on a GPU.

registers   one element, known to every thread that asks; a tile that stage and readers reach by written-out loops alone;
            a *fragment*: the team's tile, of which each thread holds what it makes, because its reader is bound alike
shared      what a block's threads make for each other
stack       what a thread makes for itself (local memory, in the caches)
"""

from __future__ import annotations

from math import prod

from ...schedules.loops import Loop, LoopKind, LoopTree, Scope, StageLoops, is_full
from ...tensor.expr import Var
from .software_pipeline import slots
from .storage import REGISTER_LIMIT, Dimensions, fits_registers
from .thread_groups import BOUND, level
from .view import fixed


def gpu_scope(tree: LoopTree, stage: StageLoops, shape: tuple[int, ...], size: int) -> tuple[Scope, Dimensions, int]:
    """The scope of an attached stage's tensor of this shape and element size, the dimensions of a fragment, and how many
    times it exists."""
    scope, dimensions = _scope(tree, stage, shape, size)
    return scope, dimensions, slots(tree, stage)


def _scope(tree: LoopTree, stage: StageLoops, shape: tuple[int, ...], size: int) -> tuple[Scope, Dimensions]:
    if stage.scope is not None:
        return stage.scope, ()
    alone = level(tree, stage) is LoopKind.THREAD or not _team(tree, stage)
    if prod(shape) == 1 and not _is_shared_out(tree, stage):
        return Scope.REGISTER, ()
    if alone:
        small = prod(shape) * size <= REGISTER_LIMIT and fits_registers(tree, stage)
        return (Scope.REGISTER if small else Scope.STACK), ()
    dimensions = fragment(tree, stage)
    if dimensions is not None:
        return Scope.REGISTER, dimensions
    return Scope.SHARED, ()


def _team(tree: LoopTree, stage: StageLoops) -> bool:
    """Whether the nest of a stage has more than one thread."""
    root = [outer for outer, _ in tree.chain(stage.stage)][-1]
    inside = [s for s in tree.stages if s is root or any(outer is root for outer, _ in tree.chain(s.stage))]
    return any(loop.kind in BOUND for s in inside for loop in s.loops)


def _is_shared_out(tree: LoopTree, stage: StageLoops) -> bool:
    """Whether bound loops of spatial axes divide the points over threads, so that not all of them know each."""
    axes = {a.name for a in tree.definition(stage.stage).axes}
    return any(x.kind in BOUND and x.axis in axes and fixed(x.extent) > 1 for x in stage.loops)


def fragment(tree: LoopTree, stage: StageLoops) -> Dimensions | None:
    """The dimensions of what each thread holds, (axis, stride, extent), if all readers are bound as the stage is."""
    if stage.at is None or stage.tiled or tree.definition(stage.stage).fold is not None:
        return None
    definition = tree.definition(stage.stage)
    if len(definition.tensors) != 1:
        return None
    mine = _pattern(tree, stage, stage.loops, {a.name: a.name for a in definition.axes})
    if mine is None:
        return None
    for consumer in tree.program.consumers[definition.name]:
        reader = tree.by_stage[consumer.name]
        if reader is not tree.by_stage[stage.at[0]] and reader.at != stage.at:
            return None
        around = reader.position(stage.at[1]) + 1 if reader.stage == stage.at[0] else 0
        for read in consumer.reads():
            if read.tensor != definition.name:
                continue
            names = {}
            for axis, index in zip(definition.axes, read.indices, strict=True):
                if not isinstance(index, Var) or index.name in names:
                    return None
                names[index.name] = axis.name
            if _pattern(tree, reader, reader.loops[around:], names) != mine:
                return None
    return tuple(
        (loop.axis, fixed(loop.stride), fixed(loop.extent))
        for axis in definition.axes
        for loop in stage.pieces(axis.name)
        if loop.kind not in BOUND
    )


def _pattern(tree: LoopTree, stage: StageLoops, loops: tuple[Loop, ...], names: dict[str, str]) -> object | None:
    """How loops cover axes: the pieces of each, and the bound ones in the order in which they count. None if not in full."""
    pieces: dict[str, list[tuple[int, int, bool, bool]]] = {name: [] for name in names.values()}
    order: list[tuple[int, str, int, int, LoopKind]] = []
    for loop in loops:
        axis = names.get(loop.axis)
        if axis is None:
            if loop.kind in BOUND:
                return None
            continue
        extent, stride = fixed(loop.extent), fixed(loop.stride)
        if extent == 1 and loop.kind not in BOUND and len(stage.pieces(loop.axis)) == 1:
            continue  # the one row of a team, which one side has a loop for and the other has not
        if not is_full(tree, stage, loop):
            return None
        pieces[axis].append((extent, stride, loop.kind in BOUND, loop.kind is LoopKind.VECTOR))
        if loop.kind in BOUND:
            order.append((loop.dimension, axis, extent, stride, loop.kind))
    return pieces, order
