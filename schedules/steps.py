"""The schedule primitives: small pure functions from loop tree to loop tree. `STEPS` names them.

Each docstring shows before -> after on the outline. Legality is checked here, on structure alone, so it is the same for a
template that is being traced and for 100,000 configs; what depends on numbers becomes a condition of the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..common.errors import ScheduleError
from ..tensor.expr import Expr, Read, rewrite
from ..tensor.program import Axis, Program, Stage, Tensor
from .extents import Extent, Sym, ceildiv, product
from .inlining import inline_stage
from .loops import Loop, LoopKind, LoopTree, Scope, StageLoops, is_full, is_reduction
from .regions import box_extents, check_disjoint

CPU_KINDS = (LoopKind.VECTOR, LoopKind.UNROLL, LoopKind.PARALLEL)


@dataclass(frozen=True, slots=True)
class Context:
    """What a step may know beside the tree: its number, and the extents of reduction axes in their present life."""

    number: int
    extents: dict[tuple[str, str], Extent]


# ---- loops of one stage ----------------------------------------------------------------------------------------------


def split(tree: LoopTree, context: Context, loop: str, *factors: Extent) -> LoopTree:
    """Cuts an axis in pieces; a factor need not divide.

    for i: N        ->    for i.p0: ceil(N / (F1 * F2))
                            for i.p1: F1        (clamped at the edge)
                              for i.p2: F2
    """
    stage = _open_stage(tree, loop)
    old = stage.loop(loop)
    if len(stage.pieces(old.axis)) > 1:
        raise _wrong(tree, stage, loop, "an axis is split once", "give all factors in one split")
    if not factors:
        raise _wrong(tree, stage, loop, "split needs at least one factor", "split(i, s.factor('i.tile'))")
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
    return tree.replacing(replace(stage, loops=loops))


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
    stage = _open_stage(tree, loops[0])
    if len(set(loops)) != len(loops):
        raise _wrong(tree, stage, loops[0], "reorder names a loop twice", "name each loop once")
    named = [_loop_of(tree, stage, name) for name in loops]
    places = sorted(stage.position(name) for name in loops)
    result = list(stage.loops)
    for place, loop in zip(places, named, strict=True):
        result[place] = loop
    changed = replace(stage, loops=tuple(result))
    for axis in stage.box:
        pieces = changed.pieces(axis)
        if [p.name for p in pieces] != sorted((p.name for p in pieces), key=_piece_number):
            raise _wrong(tree, stage, pieces[0].name, "pieces of one axis keep their order", "outer pieces stay outside")
    return tree.replacing(changed)


def _piece_number(name: str) -> int:
    last = name.rsplit(".", 1)[1]
    return int(last[1:]) if last[1:].isdigit() and last[0] == "p" else 0


def _mark(kind: LoopKind) -> Callable[..., LoopTree]:
    def step(tree: LoopTree, context: Context, *loops: str) -> LoopTree:
        for name in loops:
            stage = tree.owner(name)
            old = _loop_of(tree, stage, name)
            if old.kind is not LoopKind.SERIAL:
                raise _wrong(tree, stage, name, f"the loop is already {old.kind}", f"leave out {kind}")
            changed = tuple(replace(x, kind=kind, step=context.number) if x is old else x for x in stage.loops)
            tree = tree.replacing(replace(stage, loops=changed))
            _check_kind(tree, tree.by_stage[stage.stage], name, kind)
            _check_tile(tree, tree.by_stage[stage.stage])
        return tree

    return step


def _check_kind(tree: LoopTree, stage: StageLoops, name: str, kind: LoopKind) -> None:
    loop = stage.loop(name)
    innermost = stage.pieces(loop.axis)[-1].name == name
    if kind is LoopKind.VECTOR:
        if not innermost:
            raise _wrong(tree, stage, name, "only the innermost piece of an axis is vectorized", "split the axis first")
        if sum(x.kind is LoopKind.VECTOR for x in stage.loops) > 1:
            raise _wrong(tree, stage, name, "a stage has one vectorized loop", "unroll the other")
    if kind is LoopKind.PARALLEL:
        if is_reduction(tree, stage.stage, loop.axis):
            raise _wrong(tree, stage, name, "a reduction loop carries a value from trip to trip", "rewrite with split_k")
        outside = stage.loops[: stage.position(name)]
        if stage.at is not None or any(x.kind is not LoopKind.PARALLEL for x in outside):
            raise _wrong(tree, stage, name, "parallel loops are the outermost loops of a root", "reorder first")


def vectorize(tree: LoopTree, context: Context, loop: str) -> LoopTree:
    """All trips at once, in vector lanes.   for j.p1: 16   ->   vector j.p1: 16"""
    return _mark(LoopKind.VECTOR)(tree, context, loop)


def unroll(tree: LoopTree, context: Context, *loops: str) -> LoopTree:
    """One copy of the body for each trip.   for i.p1: 6   ->   unroll i.p1: 6"""
    return _mark(LoopKind.UNROLL)(tree, context, *loops)


def parallel(tree: LoopTree, context: Context, *loops: str) -> LoopTree:
    """Trips divided over the threads; several loops are one collapsed loop.   for i: 8   ->   parallel i: 8"""
    return _mark(LoopKind.PARALLEL)(tree, context, *loops)


def bind(tree: LoopTree, context: Context, level: str, dimension: Extent, *loops: str) -> LoopTree:
    """Gives loops to GPU blocks, warps or threads: over more items than there are, they stride.

    for i: 64        ->    block.0 i: 64          bind(block, 0, i)
    """
    kinds = {"block": LoopKind.BLOCK, "warp": LoopKind.WARP, "thread": LoopKind.THREAD}
    if level not in kinds:
        raise ScheduleError(f"cannot bind to {level!r}", expected="block, warp or thread")
    tree = _mark(kinds[level])(tree, context, *loops)
    for name in loops:
        stage = tree.owner(name)
        marked = tuple(replace(x, dimension=int(dimension)) if x.name == name else x for x in stage.loops)  # type: ignore[arg-type]
        tree = tree.replacing(replace(stage, loops=marked))
    return tree


# ---- where a stage runs ----------------------------------------------------------------------------------------------


def compute_at(tree: LoopTree, context: Context, stage: str, loop: str) -> LoopTree:
    """Runs a stage inside a loop of its consumer, for just the box that is read there.

    P i: N                   C i.p0
    C i.p0             ->      P i: 8             compute_at(P, C.i.p0)
      C i.p1: 8                C i.p1: 8
    """
    moved = tree.loops_of(stage)
    outer = tree.owner(loop)
    if any(len(moved.pieces(axis)) > 1 for axis in moved.box) or moved.at is not None:
        raise _wrong(tree, moved, None, "a stage that has been split or attached cannot be attached", "attach it first")
    if outer.stage == stage:
        raise _wrong(tree, outer, loop, "a stage cannot run inside of its own loop", "name a loop of its consumer")
    produced = {t.name for t in tree.definition(stage).tensors}
    if produced & set(tree.program.outputs):
        raise _wrong(tree, moved, None, "an output is computed at the root", "copy it, and attach the copy")
    at = (outer.stage, loop)
    check_disjoint(tree, stage, at)
    reduction = {a.name: context.extents.get((stage, a.name), a.extent) for a in tree.definition(stage).reduction}
    box = box_extents(tree, stage, at, reduction)
    loops = tuple(replace(x, extent=box[x.axis]) for x in moved.loops)
    tree = tree.replacing(replace(moved, loops=loops, box=box, at=at))
    _check_tile(tree, outer)
    return tree


def _check_tile(tree: LoopTree, stage: StageLoops) -> None:
    """No stage is attached inside of a full piece: there are no loops in a register tile."""
    inside = [stage.position(s.at[1]) for s in tree.stages if s.at is not None and s.at[0] == stage.stage]
    for loop in stage.loops[: max(inside, default=-1) + 1]:
        if is_full(tree, stage, loop):
            raise _wrong(tree, stage, loop.name, "nothing runs inside a register tile", "attach at a loop around it")


def inline(tree: LoopTree, context: Context, stage: str) -> LoopTree:
    """Writes the body of a pointwise stage wherever it is read.   t = x + 1; y = t * 2   ->   y = (x + 1) * 2"""
    gone = tree.loops_of(stage)
    program = inline_stage(tree.program, stage)
    kept = tuple(s for s in tree.stages if s.stage != gone.stage)
    if any(s.at is not None and s.at[0] == stage for s in kept):
        raise _wrong(tree, gone, None, "stages are attached to it", "inline it first")
    return replace(tree, program=program, stages=kept)


def copy(tree: LoopTree, context: Context, name: str, tensor: str, reader: str, scope: str = "") -> LoopTree:
    """Inserts a stage that copies what one stage reads of a tensor. Its storage order is the order of its loops.

    C = ... B[k, j]    ->    c0[k, j] = B[k, j];  C = ... c0[k, j]         copy(c0, B, C)

    Attach it, split it and reorder it as any stage: cache_read, pack and shared-memory staging are uses of it.
    """
    source = tree.program.tensors.get(tensor)
    if source is None or name in tree.program.tensors:
        raise ScheduleError(f"cannot copy {tensor!r} as {name!r}: unknown tensor, or a name that is taken")
    axes = tuple(Axis(f"a{n}", extent) for n, extent in enumerate(source.shape))
    made = Stage((Tensor(name, source.dtype, source.shape),), axes, (Read(tensor, tuple(a.var for a in axes), source.dtype),))
    program = _insert_before(tree.program, made, reader)
    extents = [_tensor_extent(tree, context, tensor, n) for n in range(len(axes))]
    loops = tuple(Loop(f"{name}.{a.name}", a.name, e, 1, step=context.number) for a, e in zip(axes, extents, strict=True))
    box = {a.name: e for a, e in zip(axes, extents, strict=True)}
    place = next(n for n, s in enumerate(tree.stages) if s.stage == reader)
    added = StageLoops(name, loops, box, scope=Scope(scope) if scope else None, copies=tensor, tiled=True)
    return replace(tree, program=program, stages=(*tree.stages[:place], added, *tree.stages[place:]))


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
        if all(read.tensor != source.tensor for read in stage.reads()):
            raise ScheduleError(f"{reader} does not read {source.tensor}", advice="name a stage that reads it")
        fold = stage.fold
        if fold is not None:
            fold = replace(fold, locals=tuple((n, rewrite(e, swap)) for n, e in fold.locals))
        stages += [made, replace(stage, bodies=tuple(rewrite(b, swap) for b in stage.bodies), fold=fold)]
    return program.replacing(tuple(stages))


def _tensor_extent(tree: LoopTree, context: Context, tensor: str, dimension: int) -> Extent:
    """The extent of a dimension of a tensor in its present life."""
    known = context.extents.get((tensor, f"#{dimension}"))
    return tree.program.tensors[tensor].shape[dimension] if known is None else known


# ---- the rest of the vocabulary ----------------------------------------------------------------------------------------


def streaming(tree: LoopTree, context: Context, stage: str, on: Extent = 1) -> LoopTree:
    """Stores past the caches (non-temporal), for outputs that are larger than them.   store   ->   stream"""
    old = tree.loops_of(stage)
    return tree.replacing(replace(old, notes=(*old.notes, ("streaming", "", on))))


def prefetch(tree: LoopTree, context: Context, tensor: str, loop: str, distance: Extent) -> LoopTree:
    """Asks for what a loop will read of a tensor some trips ahead; 0 for not at all."""
    stage = tree.owner(loop)
    return tree.replacing(replace(stage, notes=(*stage.notes, (f"prefetch {tensor}", loop, distance))))


def pipeline(tree: LoopTree, context: Context, loop: str, stages: Extent) -> LoopTree:
    """Lets the copies attached inside a loop run `stages` trips ahead of their use (software pipelining)."""
    stage = tree.owner(loop)
    return tree.replacing(replace(stage, notes=(*stage.notes, ("pipeline", loop, stages))))


def pad_layout(tree: LoopTree, context: Context, stage: str, elements: Extent) -> LoopTree:
    """Adds unused elements to each row of a copy, against bank conflicts and 4K aliasing."""
    old = tree.loops_of(stage)
    return tree.replacing(replace(old, notes=(*old.notes, ("pad_layout", "", elements))))


def swizzle(tree: LoopTree, context: Context, stage: str, bits: Extent) -> LoopTree:
    """Exchanges columns of a copy by the xor of row bits, against bank conflicts."""
    old = tree.loops_of(stage)
    return tree.replacing(replace(old, notes=(*old.notes, ("swizzle", "", bits))))


def tensorize(tree: LoopTree, context: Context, stage: str, intrinsic: str) -> LoopTree:
    """Replaces the register tile of a stage by a matrix-unit instruction."""
    old = tree.loops_of(stage)
    return tree.replacing(replace(old, tensorized=intrinsic))


@dataclass(frozen=True, slots=True)
class StepKind:
    """A primitive: its function and what its arguments are: l loop, s stage, t tensor, n name, w word, e extent."""

    function: Callable[..., LoopTree]
    arguments: str  # the last letter repeats when followed by *


STEPS: dict[str, StepKind] = {
    "split": StepKind(split, "le*"),
    "reorder": StepKind(reorder, "l*"),
    "vectorize": StepKind(vectorize, "l"),
    "unroll": StepKind(unroll, "l*"),
    "parallel": StepKind(parallel, "l*"),
    "bind": StepKind(bind, "wel*"),
    "compute_at": StepKind(compute_at, "sl"),
    "inline": StepKind(inline, "s"),
    "copy": StepKind(copy, "ntsw"),
    "streaming": StepKind(streaming, "se"),
    "prefetch": StepKind(prefetch, "tle"),
    "pipeline": StepKind(pipeline, "le"),
    "pad_layout": StepKind(pad_layout, "se"),
    "swizzle": StepKind(swizzle, "se"),
    "tensorize": StepKind(tensorize, "sw"),
}


# ---- errors ------------------------------------------------------------------------------------------------------------


def _open_stage(tree: LoopTree, loop: str) -> StageLoops:
    stage = tree.owner(loop)
    if any(s.at is not None and s.at[0] == stage.stage for s in tree.stages):
        raise _wrong(tree, stage, loop, "other stages are attached to its loops", "schedule the consumer before attaching")
    return stage


def _loop_of(tree: LoopTree, stage: StageLoops, name: str) -> Loop:
    try:
        return stage.loop(name)
    except KeyError:
        raise _wrong(tree, stage, None, f"{stage.stage} has no loop {name}", "loops of one stage only") from None


def _wrong(tree: LoopTree, stage: StageLoops, loop: str | None, problem: str, advice: str) -> ScheduleError:
    from .outline import outline

    return ScheduleError(problem, advice=advice, where=outline(tree, mark=loop or stage.stage, note="<-- here"))


def trips_of(loops: tuple[Loop, ...]) -> Extent:
    """The product of the extents of loops."""
    return product([loop.extent for loop in loops])


def is_known(value: Extent) -> bool:
    """True unless the extent is symbolic."""
    return not isinstance(value, Sym)
