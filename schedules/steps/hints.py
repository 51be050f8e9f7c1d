"""Primitives that leave the loops as they are and say how memory is used: hints, layouts, matrix units."""

from __future__ import annotations

from dataclasses import replace

from ..extents import Extent
from ..loops import LoopTree
from .checks import Context, wrong


def streaming(tree: LoopTree, context: Context, stage: str, on: Extent = 1) -> LoopTree:
    """Stores past the caches (non-temporal), for outputs that are larger than them.   store   ->   stream"""
    old = tree.loops_of(stage)
    return tree.replacing(replace(old, notes=(*old.notes, ("streaming", "", on))))


def align(tree: LoopTree, context: Context, stage: str, on: Extent = 1) -> LoopTree:
    """Vectors along the rows of a stage begin where lines of memory do; the points of a row before that are done alone.

    for j0, vector j1   y[i, j0 + j1]    ->    vector j1 < first   y[i, j1];   for j0, vector j1   y[i, first + j0 + j1]
    """
    old = tree.loops_of(stage)
    return tree.replacing(replace(old, notes=(*old.notes, ("aligned", "", on))))


def prefetch(tree: LoopTree, context: Context, tensor: str, loop: str, distance: Extent) -> LoopTree:
    """Asks for what a loop will read of a tensor, or write of the stage's own, some trips ahead; 0 for not at all.

    for i.p0                         for i.p0
      unroll i.p1: 8          ->       prefetch x[i.p0 + distance, ...]
        t += x[i, ...]                 unroll i.p1: 8 ...
    """
    stage = tree.owner(loop)
    definition = tree.definition(stage.stage)
    used = dict.fromkeys([*(r.tensor for r in definition.reads()), *(t.name for t in definition.tensors)])
    if tensor not in used:
        raise wrong(tree, loop, f"{stage.stage} does not use {tensor}", expected=f"one of {', '.join(used)}")
    return tree.replacing(replace(stage, notes=(*stage.notes, (f"prefetch {tensor}", loop, distance))))


def bring(tree: LoopTree, context: Context, stage: str, tensor: str, loop: str, on: Extent = 1) -> LoopTree:
    """Asks for what a stage will read of a tensor in the next trip of a loop around it, a little in each trip of its reduction.

    for j                               for j
      for k                               for k
        acc += a[i, k] * b[k, j]   ->       prefetch b[.. a share of the lines of j + 1 ..]
                                            acc += a[i, k] * b[k, j]
    """
    old = tree.loops_of(stage)
    used = dict.fromkeys(read.tensor for read in tree.definition(stage).reads())
    if tensor not in used:
        raise wrong(tree, loop, f"{stage} does not read {tensor}", expected=f"one of {', '.join(used)}")
    around = [x.name for x in old.loops] + [x.name for outer, n in tree.chain(stage) for x in outer.loops[:n]]
    if loop not in around:
        raise wrong(tree, loop, f"{stage} does not run inside of {loop}", expected=f"one of {', '.join(around)}")
    return tree.replacing(replace(old, notes=(*old.notes, (f"bring {tensor}", loop, on))))


def pipeline(tree: LoopTree, context: Context, loop: str, stages: Extent, staged: Extent = 0) -> LoopTree:
    """Lets the copies to shared memory inside a loop run `stages` - 1 trips ahead of their use (software pipelining).

    They have `stages` times their memory. 1: no pipelining. The copies are asynchronous where the target has such; where it has
    not, and where `staged` is 1, each thread holds in registers what it copies while the work of a trip runs.
    """
    stage = tree.owner(loop)
    asked = not isinstance(staged, int) or staged != 0
    notes = (("pipeline", loop, stages), *((("staged", loop, staged),) if asked else ()))
    return tree.replacing(replace(stage, notes=(*stage.notes, *notes)))


def pad_layout(tree: LoopTree, context: Context, stage: str, elements: Extent) -> LoopTree:
    """Adds unused elements to each row of a copy (its innermost loop), against bank conflicts and 4K aliasing.

    copy0[p0, p1] of 64 x 1024    ->    64 x 1032         pad_layout(copy0, 8)
    """
    return _note_on_copy(tree, stage, "pad_layout", elements)


def swizzle(tree: LoopTree, context: Context, stage: str, bits: Extent) -> LoopTree:
    """Exchanges the 16-byte chunks of a line of 128 bytes by the xor of the line's number, its lowest `bits` bits, against
    bank conflicts. 0: as they lie."""
    return _note_on_copy(tree, stage, "swizzle", bits)


def _note_on_copy(tree: LoopTree, stage: str, kind: str, number: Extent) -> LoopTree:
    old = tree.loops_of(stage)
    if old.copies is None:
        raise wrong(tree, stage, f"{stage} is no copy", expected="a copy, whose layout is free", advice="copy it first")
    return tree.replacing(replace(old, notes=(*old.notes, (kind, "", number))))


def tensorize(tree: LoopTree, context: Context, stage: str, intrinsic: str) -> LoopTree:
    """Replaces the register tile of a stage by a matrix-unit instruction."""
    old = tree.loops_of(stage)
    return tree.replacing(replace(old, tensorized=intrinsic))
