"""Primitives on the loops of one stage: split, reorder, and the kinds of loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...common.errors import ScheduleError
from ..extents import Extent, ceildiv
from ..loops import Loop, LoopKind, LoopTree, StageLoops, is_reduction
from .checks import Context, attached_to, check_tile, loop_of, open_stage, wrong
from .kind import StepKind


def split(tree: LoopTree, context: Context, loop: str, *factors: Extent) -> LoopTree:
    """Cuts an axis in pieces; a factor need not divide.

    for i: N        ->    for i.p0: ceil(N / (F1 * F2))
                            for i.p1: F1        (clamped at the edge)
                              for i.p2: F2
    """
    stage = open_stage(tree, loop)
    old = stage.loop(loop)
    if len(stage.pieces(old.axis)) > 1:
        raise wrong(tree, loop, "an axis is split once", expected="all factors of an axis in one split")
    if old.kind is not LoopKind.SERIAL:
        raise wrong(tree, loop, f"the loop is {old.kind} already", expected="a plain loop", advice="split first")
    if not factors or any(isinstance(f, int) and f < 1 for f in factors):
        raise wrong(tree, loop, "this is no way to split a loop", expected="one or more factors, each at least 1")
    strides: list[Extent] = [1]
    for factor in reversed(factors):
        strides.insert(0, factor * strides[0])
    extents: list[Extent] = [ceildiv(old.extent, strides[0]), *factors]
    pieces = tuple(
        Loop(f"{loop}.p{n}", old.axis, extent, stride, step=context.number)
        for n, (extent, stride) in enumerate(zip(extents, strides, strict=True))
    )
    for piece in pieces[1:]:
        tree = _useful(tree, piece, old.extent)
    position = stage.position(loop)
    loops = (*stage.loops[:position], *pieces, *stage.loops[position + 1 :])
    return tree.replacing(stage.with_loops(loops))


def _useful(tree: LoopTree, piece: Loop, extent: Extent) -> LoopTree:
    """A piece with more trips than the axis can fill is the same loop as a smaller one: only one of them is valid.

    An innermost piece may be one vector even if the axis is shorter; that is left to the template.
    """
    if isinstance(piece.stride, int) and piece.stride == 1:
        return tree
    return tree.requiring((piece.extent - 1) * piece.stride < extent, f"{piece.name} has no trips to spare")


def reorder(tree: LoopTree, context: Context, *loops: str) -> LoopTree:
    """Puts loops of one stage in the given order, in the places that they hold together.

    for i            ->    for k
      for k                  for i          reorder(k, i)
    """
    if not loops or len(set(loops)) != len(loops):
        raise ScheduleError("reorder names a loop twice, or none", expected="each loop once", found=", ".join(loops))
    stage = open_stage(tree, loops[0])
    named = [loop_of(tree, stage, name) for name in loops]
    places = sorted(stage.position(name) for name in loops)
    result = list(stage.loops)
    for place, loop in zip(places, named, strict=True):
        result[place] = loop
    changed = stage.with_loops(tuple(result))
    for axis in stage.box:
        before = [piece.name for piece in stage.pieces(axis)]
        after = [piece.name for piece in changed.pieces(axis)]
        if before != after:
            raise wrong(tree, before[0], "the pieces of an axis keep their order", expected=" outside of ".join(before))
    return tree.replacing(changed)


def _mark(tree: LoopTree, context: Context, kind: LoopKind, loops: tuple[str, ...], dimension: int = 0) -> LoopTree:
    for name in loops:
        stage = tree.owner(name)
        old = stage.loop(name)
        if old.kind is not LoopKind.SERIAL:
            raise wrong(tree, name, f"the loop is {old.kind} already", expected=f"a plain loop to make {kind}")
        made = replace(old, kind=kind, step=context.number, dimension=dimension)
        tree = tree.replacing(stage.with_loops(tuple([made if x is old else x for x in stage.loops])))
        _check_kind(tree, tree.by_stage[stage.stage], name, kind)
        check_tile(tree, tree.by_stage[stage.stage])
    return tree


def _check_kind(tree: LoopTree, stage: StageLoops, name: str, kind: LoopKind) -> None:
    kept = [other for other in tree.attached.get((stage.stage, name), ()) if tree.by_stage[other].stored is not None]
    if kept:
        raise wrong(
            tree, name, f"{kept[0]} is kept from trip to trip of {name}",
            expected="a loop that runs its trips in order", advice="leave store_at out",
        )  # fmt: skip
    for other in attached_to(tree, stage.stage):
        if any(loop.name == name for loop in tree.loops_of_use(other)):
            raise wrong(
                tree, name, f"{other.stage} runs on first use inside of {name}",
                expected="a loop that runs its trips in order", advice="leave on_first_use out",
            )  # fmt: skip
    check = _CHECKS.get(kind)
    if check is not None:
        check(tree, stage, stage.loop(name))


def _check_vector(tree: LoopTree, stage: StageLoops, loop: Loop) -> None:
    if stage.pieces(loop.axis)[-1] is not loop:
        raise wrong(
            tree,
            loop.name,
            "an outer piece of an axis cannot be vectorized",
            expected="the innermost piece of its axis",
        )
    if sum(x.kind is LoopKind.VECTOR for x in stage.loops) > 1:
        raise wrong(
            tree, loop.name, "a second loop is vectorized", expected="one vector loop a stage", advice="unroll it"
        )


def _check_parallel(tree: LoopTree, stage: StageLoops, loop: Loop) -> None:
    _check_independent(tree, stage, loop)
    outside = stage.loops[: stage.position(loop.name)]
    if stage.at is not None or any(x.kind is not LoopKind.PARALLEL for x in outside):
        raise wrong(
            tree, loop.name, "a loop inside of others cannot be parallel",
            expected="the outermost loops of a stage at the root", advice="reorder first",
        )  # fmt: skip


def _check_block(tree: LoopTree, stage: StageLoops, loop: Loop) -> None:
    _check_independent(tree, stage, loop)
    outside = stage.loops[: stage.position(loop.name)]
    if stage.at is not None or any(x.kind is not LoopKind.BLOCK for x in outside):
        raise wrong(
            tree, loop.name, "a loop inside of others cannot be bound to blocks",
            expected="the outermost loops of a stage at the root", advice="reorder first",
        )  # fmt: skip


def _check_thread(tree: LoopTree, stage: StageLoops, loop: Loop) -> None:
    if tree.definition(stage.stage).fold is not None and is_reduction(tree, stage.stage, loop.axis):
        raise wrong(
            tree, loop.name, "the steps of a fold are taken in order",
            expected="a loop of an axis that is not the ordered one",
        )  # fmt: skip


def _check_independent(tree: LoopTree, stage: StageLoops, loop: Loop) -> None:
    if is_reduction(tree, stage.stage, loop.axis):
        raise wrong(
            tree, loop.name, "a reduction loop carries a value from trip to trip",
            expected="a loop of a spatial axis", advice="make partial sums of it with the rewrite split_k",
        )  # fmt: skip


_CHECKS: dict[LoopKind, Callable[[LoopTree, StageLoops, Loop], None]] = {
    LoopKind.VECTOR: _check_vector,
    LoopKind.PARALLEL: _check_parallel,
    LoopKind.BLOCK: _check_block,
    LoopKind.WARP: _check_thread,
    LoopKind.THREAD: _check_thread,
}


def vectorize(tree: LoopTree, context: Context, loop: str) -> LoopTree:
    """All trips at once, in vector lanes.   for j.p1: 16   ->   vector j.p1: 16"""
    return _mark(tree, context, LoopKind.VECTOR, (loop,))


def unroll(tree: LoopTree, context: Context, *loops: str) -> LoopTree:
    """One copy of the body for each trip.   for i.p1: 6   ->   unroll i.p1: 6"""
    return _mark(tree, context, LoopKind.UNROLL, loops)


def parallel(tree: LoopTree, context: Context, *loops: str) -> LoopTree:
    """Trips divided over the threads; several loops are one collapsed loop.   for i: 8   ->   parallel i: 8"""
    return _mark(tree, context, LoopKind.PARALLEL, loops)


_LEVELS = {"block": LoopKind.BLOCK, "warp": LoopKind.WARP, "thread": LoopKind.THREAD}


def bind(tree: LoopTree, context: Context, level: str, dimension: Extent, *loops: str) -> LoopTree:
    """Gives loops to GPU blocks, warps or threads: over more items than there are, they stride.

    The loops of a stage that are bound alike form one linear index: those of dimension 0 count fastest, then 1, then 2, and
    inside of one dimension the innermost. With warps, threads are their lanes. A reduction bound to threads is combined.

    for i: 64        ->    block.0 i: 64          bind(block, 0, i)
    """
    if level not in _LEVELS or not isinstance(dimension, int) or dimension not in (0, 1, 2):
        raise ScheduleError(
            f"cannot bind to {level} {dimension}", expected="block, warp or thread, and the dimension 0, 1 or 2"
        )
    return _mark(tree, context, _LEVELS[level], loops, dimension)


LOOP_STEPS = {
    "split": StepKind(split, "le*"),
    "reorder": StepKind(reorder, "l*"),
    "vectorize": StepKind(vectorize, "l"),
    "unroll": StepKind(unroll, "l*"),
    "parallel": StepKind(parallel, "l*"),
    "bind": StepKind(bind, "wel*"),
}
