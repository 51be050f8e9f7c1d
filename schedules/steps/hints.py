"""Primitives that leave the loops as they are and say how memory is used: hints, layouts, matrix units.

First the steps on the loop tree, then the methods by which a template takes them (schedule.py), then the table.
"""

from __future__ import annotations

from dataclasses import replace

from ..extents import Extent
from ..handles import LoopHandle, StageHandle, Tracer
from ..hints import SWIZZLED, Align, Hint, PadLayout, Pipeline, PrefetchAhead, PrefetchNext, Streaming, Swizzle
from ..loops import LoopTree
from ..reads_inside import reads_inside
from .checks import Context, wrong
from .kind import StepKind


def _said(tree: LoopTree, stage: str, hint: Hint, most: int | None = None) -> LoopTree:
    """The tree with a hint for a stage. A number that is known and makes no sense is an error: a row of a copy, say, with room
    for less than its elements."""
    for number in hint.numbers:
        if isinstance(number, int) and (number < 0 or (most is not None and number > most)):
            raise wrong(
                tree, (*hint.about, stage)[-1], f"{hint.WORD} has no meaning for {number}",
                expected="a number that is not negative" if most is None else f"a number from 0 to {most}",
            )  # fmt: skip
    return tree.replacing(tree.loops_of(stage).saying(hint))


def streaming(tree: LoopTree, context: Context, stage: str, on: Extent = 1) -> LoopTree:
    """Stores past the caches (non-temporal), for outputs that are larger than them.   store   ->   stream"""
    return _said(tree, stage, Streaming(on))


def align(tree: LoopTree, context: Context, stage: str, on: Extent = 1) -> LoopTree:
    """Vectors along the rows of a stage begin where lines of memory do; the points of a row before that are done alone.

    for j0, vector j1   y[i, j0 + j1]    ->    vector j1 < first   y[i, j1];   for j0, vector j1   y[i, first + j0 + j1]
    """
    return _said(tree, stage, Align(on))


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
    return _said(tree, stage.stage, PrefetchAhead(tensor, loop, distance))


def bring(tree: LoopTree, context: Context, stage: str, tensor: str, loop: str, on: Extent = 1) -> LoopTree:
    """Asks for what a stage will read of a tensor in the next trip of a loop around it, a little in each trip of its reduction;
    or for what will be read there to make what it reads.

    for j                               for j
      for k                               for k
        acc += a[i, k] * b[k, j]   ->       prefetch b[.. a share of the lines of j + 1 ..]
                                            acc += a[i, k] * b[k, j]
    """
    old = tree.loops_of(stage)
    used = dict.fromkeys(read.tensor for read in tree.definition(stage).reads())
    if not reads_inside(tree, old.stage, tensor):
        raise wrong(tree, loop, f"{stage} does not read {tensor}", expected=f"one of {', '.join(used)}")
    around = [x.name for x in old.loops] + [x.name for outer, n in tree.chain(stage) for x in outer.loops[:n]]
    if loop not in around:
        raise wrong(tree, loop, f"{stage} does not run inside of {loop}", expected=f"one of {', '.join(around)}")
    return _said(tree, stage, PrefetchNext(tensor, loop, on))


def pipeline(tree: LoopTree, context: Context, loop: str, stages: Extent, staged: Extent = 0) -> LoopTree:
    """Lets the copies to shared memory inside a loop run `stages` - 1 trips ahead of their use (software pipelining).

    They have `stages` times their memory. 1: no pipelining. The copies are asynchronous where the target has such; where it has
    not, and where `staged` is 1, each thread holds in registers what it copies while the work of a trip runs.
    """
    return _said(tree, tree.owner(loop).stage, Pipeline(loop, stages, staged))


def pad_layout(tree: LoopTree, context: Context, stage: str, elements: Extent) -> LoopTree:
    """Adds unused elements to each row of a copy (its innermost loop), against bank conflicts and 4K aliasing.

    copy0[p0, p1] of 64 x 1024    ->    64 x 1032         pad_layout(copy0, 8)
    """
    return _said(tree, _copy(tree, stage), PadLayout(elements))


def swizzle(tree: LoopTree, context: Context, stage: str, bits: Extent) -> LoopTree:
    """Exchanges the 16-byte chunks of a line of 128 bytes by the xor of the line's number, its lowest `bits` bits, against
    bank conflicts. 0: as they lie."""
    return _said(tree, _copy(tree, stage), Swizzle(bits), most=SWIZZLED)


def _copy(tree: LoopTree, stage: str) -> str:
    """The name of a stage that is a copy."""
    if tree.loops_of(stage).copies is None:
        raise wrong(tree, stage, f"{stage} is no copy", expected="a copy, whose layout is free", advice="copy it first")
    return stage


def tensorize(tree: LoopTree, context: Context, stage: str, intrinsic: str) -> LoopTree:
    """Replaces the register tile of a stage by a matrix-unit instruction."""
    old = tree.loops_of(stage)
    return tree.replacing(replace(old, tensorized=intrinsic))


class HintMethods(Tracer):
    """Holds the methods that a template calls: each checks its step and writes it down."""

    def streaming(self, stage: str | StageHandle, on: Extent = 1) -> None:
        """Stores past the caches where `on` is 1."""
        self._do("streaming", stage, on)

    def align(self, stage: str | StageHandle, on: Extent = 1) -> None:
        """Begins the vectors of rows where lines of memory begin, where `on` is 1."""
        self._do("align", stage, on)

    def prefetch(self, tensor: str | StageHandle, loop: LoopHandle, distance: Extent) -> None:
        """Asks for what a loop will read of a tensor `distance` trips ahead; 0: not at all."""
        self._do("prefetch", tensor, loop, distance)

    def bring(self, stage: str | StageHandle, tensor: str | StageHandle, loop: LoopHandle, on: Extent = 1) -> None:
        """Asks for what a stage will read of a tensor in the next trip of a loop, spread over the work of this trip."""
        self._do("bring", stage, tensor, loop, on)

    def pipeline(self, loop: LoopHandle, stages: Extent, staged: Extent = 0) -> None:
        """Software pipelining of the copies inside a loop: asynchronous ones, or, where `staged` is 1, through registers."""
        self._do("pipeline", loop, stages, staged)

    def pad_layout(self, stage: str | StageHandle, elements: Extent) -> None:
        """Pads the rows of a copy."""
        self._do("pad_layout", stage, elements)

    def swizzle(self, stage: str | StageHandle, bits: Extent) -> None:
        """Swizzles the columns of a copy."""
        self._do("swizzle", stage, bits)

    def tensorize(self, stage: str | StageHandle, intrinsic: str) -> None:
        """Uses a matrix-unit instruction for a stage's tile."""
        self._do("tensorize", stage, intrinsic)


HINT_STEPS = {
    "streaming": StepKind(streaming, "se?"),
    "align": StepKind(align, "se?"),
    "prefetch": StepKind(prefetch, "tle"),
    "bring": StepKind(bring, "stle?"),
    "pipeline": StepKind(pipeline, "lee?"),
    "pad_layout": StepKind(pad_layout, "se"),
    "swizzle": StepKind(swizzle, "se"),
    "tensorize": StepKind(tensorize, "sw"),
}
