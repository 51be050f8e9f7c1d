"""Primitives on stages: where they run, what is written into their readers, what is copied for them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...common.errors import ScheduleError
from ...tensor.expr import Expr, Read, rewrite
from ...tensor.program import Axis, Program, Stage, Tensor
from ..boxes import aligned_with, box_axes, kept_points
from ..extents import Extent
from ..inlining import inline_stages
from ..loops import Loop, LoopKind, LoopTree, Scope, StageLoops
from ..regions import box_extents
from .checks import Context, check_tile, holds_stages, wrong
from .kind import StepKind

COPY_SCOPES = (Scope.REGISTER, Scope.STACK, Scope.SCRATCH, Scope.SHARED, Scope.TILE)


def compute_at(tree: LoopTree, context: Context, stage: str, loop: str) -> LoopTree:
    """Runs a stage inside a loop of its consumer, for just the box that is read there.

    P i: N                   C i.p0
    C i.p0             ->      P i: 8             compute_at(P, C.i.p0)
      C i.p1: 8                C i.p1: 8
    """
    moved = tree.loops_of(stage)
    outer = tree.owner(loop)
    if moved.at is not None or holds_stages(tree, moved) or any(not _untouched(moved, axis) for axis in moved.box):
        raise wrong(
            tree, stage, f"{stage} has been scheduled or attached already",
            expected="a stage that has its first loops", advice="attach a stage first, then schedule its loops",
        )  # fmt: skip
    if outer.stage == stage:
        raise wrong(tree, loop, "a stage cannot run inside of its own loop", expected="a loop of what reads it")
    at = (outer.stage, loop)
    _check_output(tree, stage, at)
    reduction = {a.name: context.extents.get((stage, a.name), a.extent) for a in tree.definition(stage).reduction}
    box = box_extents(tree, stage, at, reduction)
    loops = tuple(replace(x, extent=box[x.axis]) for x in moved.loops)
    tree = tree.replacing(replace(moved, loops=loops, box=box, at=at))
    check_tile(tree, outer)
    for step, divisor in aligned_with(tree, stage, at):
        tree = tree.requiring(step % divisor == 0, f"steps around {stage} are multiples of {divisor}")
    return tree


def store_at(tree: LoopTree, context: Context, stage: str, loop: str) -> LoopTree:
    """Keeps what a stage has computed from trip to trip: a window that slides, of which each trip computes what is new.

    C i.p0: 8                    C i.p0: 8
      C i.p1: 16                   C i.p1: 16
        P i: 5           ->          P i: 5, kept in C.i.p0            store_at(P, C.i.p0)

    Its storage is a ring: as many points as a trip needs at once, along the axis that the loop moves. The loop is the one
    right outside of the loop that the stage is attached to.
    """
    moved = tree.loops_of(stage)
    if moved.at is None or moved.stored is not None or moved.tiled or any(not _untouched(moved, a) for a in moved.box):
        raise wrong(
            tree, stage, f"{stage} cannot be kept from trip to trip",
            expected="a stage that was attached just now, and is no copy", advice="store_at right after compute_at",
        )  # fmt: skip
    outer = tree.by_stage[moved.at[0]]
    place = outer.position(moved.at[1])
    inner = outer.loops[place]
    if place == 0 or outer.loops[place - 1].name != loop or inner.kind is not LoopKind.SERIAL:
        raise wrong(
            tree, loop, f"{stage} cannot be kept in {loop}",
            expected=f"the loop right outside of {inner.name}, which runs its trips in order",
        )  # fmt: skip
    tree = tree.replacing(replace(moved, stored=loop))
    _check_window(tree, stage, inner)
    return tree


def on_first_use(tree: LoopTree, context: Context, stage: str, loop: str) -> LoopTree:
    """Runs an attached stage bit by bit in a loop farther inside: in each trip what this trip is the first to read.

    C j                                  C j
      P k: 64                              C i
      C i                                    C k
        C k                    ->              if i == 0: P k: 1            on_first_use(P, C.k)

    So it overlaps with other work, as of a matrix unit, and is in the first cache when it is read first.
    """
    moved = tree.loops_of(stage)
    readers = {c.name for t in tree.definition(stage).tensors for c in tree.program.consumers[t.name]}
    made, reader = replace(moved, first_use=loop), tree.owner(loop).stage
    between = tree.loops_of_use(made) if moved.at is not None and moved.at[0] == reader else ()
    plain = between and all(x.kind is LoopKind.SERIAL for x in between)
    if not plain or readers != {reader} or moved.stored is not None or holds_stages(tree, moved):
        raise wrong(
            tree, stage, f"{stage} cannot run bit by bit in {loop}",
            expected="a stage attached to a loop of its one reader, and a loop farther inside, with plain loops between",
        )  # fmt: skip
    return tree.replacing(made)


def _check_window(tree: LoopTree, stage: str, loop: Loop) -> None:
    """The box moves along axes that are no rows of memory, and leaves no point out between two trips."""
    kept = kept_points(tree, tree.by_stage[stage])
    definition = tree.definition(stage)
    innermost = {definition.axes_of(n)[-1].name for n in range(len(definition.tensors)) if definition.axes_of(n)}
    outputs = {t.name for t in definition.tensors} & set(tree.program.outputs)
    if not kept or outputs or min(kept.values()) < 0 or not innermost.isdisjoint(kept):
        raise wrong(
            tree, loop.name, f"what {loop.name} needs of {stage} does not slide",
            expected="a stage whose rows the loop moves, some of which the next trip needs again", advice="leave store_at out",
        )  # fmt: skip


def _check_output(tree: LoopTree, stage: str, at: tuple[str, str]) -> None:
    """An output is attached only where its tiles are disjoint and cover it: each trip of the loops around has its own."""
    definition = tree.definition(stage)
    if not {t.name for t in definition.tensors} & set(tree.program.outputs):
        return
    outer = tree.by_stage[at[0]]
    extents = {a.name: a.extent for a in tree.definition(at[0]).axes}
    boxes = box_axes(tree, stage, at)
    follows = {}  # axis of the output -> the axis of the outer stage that it follows point by point
    for axis in definition.axes:
        box = boxes[axis.name]
        if len(box.terms) == 1 and box.terms[0][1] == 1 and box.low == box.high == 0 and box.is_plain:
            follows[axis.name] = box.terms[0][0]
    whole = all(extents.get(follows.get(axis.name, "")) == axis.extent for axis in definition.axes)
    around = outer.loops[: outer.position(at[1]) + 1]
    if not whole or outer.at is not None or any(loop.axis not in follows.values() for loop in around):
        raise wrong(
            tree, stage, f"{stage} is an output, and its tiles at {at[1]} overlap or leave points out",
            expected="an output at the root, or where all loops around it are of axes that it follows point by point",
        )  # fmt: skip


def _untouched(stage: StageLoops, axis: str) -> bool:
    pieces = stage.pieces(axis)
    return len(pieces) == 1 and pieces[0].kind is LoopKind.SERIAL


def inline(tree: LoopTree, context: Context, stage: str) -> LoopTree:
    """Writes the body of a pointwise stage wherever it is read.   t = x + 1; y = t * 2   ->   y = (x + 1) * 2"""
    return inline_all(tree, (stage,))


def inline_all(tree: LoopTree, stages: tuple[str, ...]) -> LoopTree:
    """Inlines stages one after another; errors are those of any of them, and the programs in between are never made."""
    gone = {tree.loops_of(stage).stage for stage in stages}
    for stage in stages:
        if holds_stages(tree, tree.loops_of(stage)):
            raise wrong(tree, stage, f"stages are attached to {stage}", expected="inline before anything is attached")
    if any(s.at is not None for s in tree.stages):
        for stage in stages:  # what one of them reads of another one is gone by then
            _check_producers(tree, stage, {r.tensor for r in tree.definition(stage).reads()} - gone)
    program = inline_stages(tree.program, stages)
    return replace(tree, program=program, stages=tuple(s for s in tree.stages if s.stage not in gone), boxes={})


def _check_producers(tree: LoopTree, reader: str, tensors: set[str]) -> None:
    """Checks that what is about to change the readers of these tensors comes before their stages are attached anywhere."""
    for tensor in sorted(tensors & tree.program.producers.keys()):
        producer = tree.by_stage[tree.program.stage(tensor).name]
        if producer.at is not None:
            raise wrong(
                tree, producer.stage, f"{producer.stage} is attached already, and who reads it would change",
                expected=f"inline and copy before {producer.stage} is attached",
            )  # fmt: skip


def copy(tree: LoopTree, context: Context, name: str, tensor: str, reader: str, scope: str = "") -> LoopTree:
    """Inserts a stage that copies what one stage reads of a tensor. Its storage order is the order of its loops.

    C = ... B[k, j]    ->    c0[k, j] = B[k, j];  C = ... c0[k, j]         copy(c0, B, C)

    Attach it, split it and reorder it as any stage: cache_read, pack and shared-memory staging are uses of it.
    """
    read_by = tree.loops_of(reader)
    source = tree.program.tensors.get(tensor)
    if source is None or all(read.tensor != tensor for read in tree.definition(reader).reads()):
        read = ", ".join(dict.fromkeys(r.tensor for r in tree.definition(reader).reads()))
        raise wrong(tree, reader, f"{reader} does not read {tensor}", expected=f"one of {read}")
    if name in tree.program.tensors:
        raise ScheduleError(f"the name {name} is taken", expected="a new name for the copy")
    if scope and scope not in COPY_SCOPES:
        raise ScheduleError(f"nothing can be copied to {scope!r}", expected=", ".join(COPY_SCOPES))
    _check_producers(tree, reader, {tensor})
    axes = tuple(Axis(f"a{n}", extent) for n, extent in enumerate(source.shape))
    made = Stage(
        (Tensor(name, source.dtype, source.shape),), axes, (Read(tensor, tuple(a.var for a in axes), source.dtype),)
    )
    program = _insert_before(tree.program, made, reader)
    extents = [_tensor_extent(tree, context, tensor, n) for n in range(len(axes))]
    loops = tuple(
        Loop(f"{name}.{a.name}", a.name, e, 1, step=context.number) for a, e in zip(axes, extents, strict=True)
    )
    box = {a.name: e for a, e in zip(axes, extents, strict=True)}
    place = tree.stages.index(read_by)
    added = StageLoops(name, loops, box, scope=Scope(scope) if scope else None, copies=tensor, tiled=True)
    return replace(tree, program=program, stages=(*tree.stages[:place], added, *tree.stages[place:]), boxes={})


@lru_cache(maxsize=512)
def _insert_before(program: Program, made: Stage, reader: str) -> Program:
    source, target = made.bodies[0], made.tensors[0]
    assert isinstance(source, Read)

    def swap(node: Expr) -> Expr | None:
        match node:
            case Read(tensor=name, indices=indices, dtype=dtype) if name == source.tensor:
                return Read(target.name, indices, dtype)
        return None

    stages: list[Stage] = []
    for stage in program.stages:
        if stage.name != reader:
            stages.append(stage)
            continue
        fold = stage.fold
        if fold is not None:
            fold = replace(fold, locals=tuple((n, rewrite(e, swap)) for n, e in fold.locals))
        stages += [made, replace(stage, bodies=tuple(rewrite(b, swap) for b in stage.bodies), fold=fold)]
    return program.replacing(tuple(stages))


def _tensor_extent(tree: LoopTree, context: Context, tensor: str, dimension: int) -> Extent:
    """The extent of a dimension of a tensor in its present life."""
    known = context.extents.get((tensor, f"#{dimension}"))
    return tree.program.tensors[tensor].shape[dimension] if known is None else known


STAGE_STEPS = {
    "compute_at": StepKind(compute_at, "sl"),
    "store_at": StepKind(store_at, "sl"),
    "on_first_use": StepKind(on_first_use, "sl"),
    "inline": StepKind(inline, "s"),
    "copy": StepKind(copy, "ntsw?"),
}
