"""What a GPU cannot do with a schedule, and what the lowering has no code for: one clear error each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...common.errors import ScheduleError
from ...schedules.loops import WRITTEN_OUT, LoopKind, LoopTree, Scope, StageLoops, is_reduction
from ...schedules.plan.threads import BOUND, bound, level
from ...schedules.steps.checks import wrong
from ...targets.target import Target
from ..ir.loop_ir import Allocate, Nest, statements
from ..ir.memory_plan import SHARED_ALIGNMENT
from .refusals import outside_registers
from .storage import Storage
from .view import fixed

MOST_BLOCKS = 2**31 - 1


def check_lowers_for_gpu(tree: LoopTree, target: Target) -> None:
    """ScheduleError, with the outline marked, for the first thing that no code is made for."""
    for stage in tree.stages:
        for error in _refusals(tree, stage, target.gpu.warp):
            raise error


def check_launch(tree: LoopTree, root: StageLoops, blocks: int, target: Target) -> None:
    """ScheduleError for more blocks than a launch can have, or more warps than a block can."""
    if blocks > MOST_BLOCKS:
        raise wrong(
            tree, root.stage, f"{root.stage} asks for {blocks} blocks", expected=f"at most {MOST_BLOCKS}",
            advice="give each block or thread more to do: split the loops",
        )  # fmt: skip
    most = target.gpu.block_threads // target.gpu.warp
    for stage in tree.stages:
        warps = 1
        for loop in bound(stage, LoopKind.WARP):
            warps *= fixed(loop.extent)
        if warps > most:
            raise wrong(
                tree, stage.stage, f"{stage.stage} asks for {warps} warps in a block", expected=f"at most {most}",
                advice="split the loop, and bind its outer piece to blocks",
            )  # fmt: skip


def check_storage(tree: LoopTree, storage: Mapping[str, Storage], target: Target) -> None:
    """ScheduleError for memory of a kind or size that threads do not have."""
    most = target.backend.scope("private").bytes
    for stage in tree.stages:
        for tensor in tree.definition(stage.stage).tensors:
            buffer = storage[tensor.name].buffer
            if buffer.scope is Scope.SHARED and level(tree, stage) is LoopKind.WARP:
                raise wrong(
                    tree, stage.stage, f"{stage.stage} is made by each warp for itself, and is too large for its registers",
                    expected="a stage whose loops, and those of its readers, are bound alike and written out",
                    advice="unroll them, or attach it outside of the warps",
                )  # fmt: skip
            if buffer.scope in (Scope.STACK, Scope.SCRATCH) and buffer.bytes > most:
                raise wrong(
                    tree, stage.stage, f"each thread would have {buffer.bytes} bytes of {stage.stage} for itself",
                    expected=f"at most {most}", advice="attach it further inside, or leave it at the root",
                )  # fmt: skip


def check_shared(tree: LoopTree, root: StageLoops, nest: Nest, target: Target) -> None:
    """ScheduleError for a block that has more shared memory than there is."""
    used = shared_bytes(nest)
    if used > target.caches[0].bytes:
        raise wrong(
            tree, root.stage, f"a block of {root.stage} has {used} bytes of shared memory",
            expected=f"at most {target.caches[0].bytes} on {target.level}",
            advice="copy smaller tiles, or fewer stages of them",
        )  # fmt: skip


def shared_bytes(nest: Nest) -> int:
    """Bytes of the SHARED buffers of a nest, each at a multiple of 128."""
    found = {s.buffer.name: s.buffer for s in statements(nest.body) if isinstance(s, Allocate)}
    sizes = (b.bytes for b in found.values() if b.scope is Scope.SHARED)
    return sum(-(-max(1, size) // SHARED_ALIGNMENT) * SHARED_ALIGNMENT for size in sizes)


def _refusals(tree: LoopTree, stage: StageLoops, warp: int) -> Iterator[ScheduleError]:
    yield from _loops(tree, stage, warp)
    if stage.scope is Scope.SHARED and (stage.at is None or level(tree, stage) is not LoopKind.BLOCK):
        yield wrong(
            tree, stage.stage, f"{stage.stage} lives in shared memory, and no block makes it",
            expected="a copy attached outside of the loops over warps and threads, in a nest of blocks",
        )  # fmt: skip
    if stage.stored is not None:
        yield wrong(
            tree, stage.stage, f"there is no code generator for GPUs that keeps {stage.stage} from trip to trip yet",
            expected="no store_at", advice="compute_at alone runs the whole box in each trip",
        )  # fmt: skip
    if stage.first_use is not None:
        yield wrong(
            tree, stage.stage, f"there is no code generator for GPUs that runs {stage.stage} on first use yet",
            expected="no on_first_use", advice="compute_at alone runs all of it before the loops inside",
        )  # fmt: skip
    if stage.scope is Scope.TILE or stage.tensorized:
        yield wrong(
            tree, stage.stage, f"there is no code generator for the matrix unit that {stage.stage} asks for yet",
            expected="register tiles",
        )  # fmt: skip
    yield from outside_registers(tree, stage)


def _loops(tree: LoopTree, stage: StageLoops, warp: int) -> Iterator[ScheduleError]:
    own = level(tree, stage)
    lanes = 1
    for position, loop in enumerate(stage.loops):
        outside = {x.kind for x in stage.loops[:position]}
        if loop.kind in BOUND and own is LoopKind.THREAD:
            yield wrong(
                tree, loop.name, f"{loop.name} is bound to {loop.kind}s inside of one thread",
                expected="loops of one thread", advice=f"attach {stage.stage} outside of the threads, or leave the loop serial",
            )  # fmt: skip
        if loop.kind is LoopKind.WARP and (own is LoopKind.WARP or LoopKind.THREAD in outside):
            yield wrong(
                tree, loop.name, f"{loop.name} is bound to warps inside of a warp", expected="lanes, which are threads"
            )
        if loop.kind is LoopKind.THREAD:
            lanes *= fixed(loop.extent)
    if lanes > warp and bound(stage, LoopKind.WARP):
        yield wrong(
            tree, bound(stage, LoopKind.THREAD)[0].name, f"{stage.stage} has {lanes} lanes in each of its warps",
            expected=f"at most {warp}", advice="split the loop over threads",
        )  # fmt: skip
    yield from _between(tree, stage)
    yield from _reductions(tree, stage)


def _between(tree: LoopTree, stage: StageLoops) -> Iterator[ScheduleError]:
    """Refuses what is attached where some loops over threads are open and others are not."""
    for position, loop in enumerate(stage.loops):
        inside = any(x.kind is LoopKind.THREAD for x in stage.loops[position + 1 :])
        outside = any(x.kind is LoopKind.THREAD for x in stage.loops[: position + 1])
        if inside and outside and (stage.stage, loop.name) in tree.attached:
            yield wrong(
                tree, loop.name, f"a stage is attached to {loop.name}, between the loops over threads of {stage.stage}",
                expected="a loop outside or inside of all of them",
            )  # fmt: skip


def _reductions(tree: LoopTree, stage: StageLoops) -> Iterator[ScheduleError]:
    """A reduction over threads ends in their registers, so no loop over points may stand inside of it."""
    reduces = [is_reduction(tree, stage.stage, loop.axis) for loop in stage.loops]
    crossing = [n for n, loop in enumerate(stage.loops) if reduces[n] and loop.kind in BOUND]
    if not crossing:
        return
    first = next(n for n, reduction in enumerate(reduces) if reduction)
    for n in range(first, len(stage.loops)):
        loop = stage.loops[n]
        if not reduces[n] and loop.kind not in (*WRITTEN_OUT, *BOUND):
            yield wrong(
                tree, loop.name, f"{loop.name} runs inside of a reduction over threads",
                expected="the loops of points outside of those of the reduction, or unrolled",
            )  # fmt: skip
