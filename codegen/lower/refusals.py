"""What the schedule language can say and the lowering has no code for yet: one clear error each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...common.errors import ScheduleError
from ...schedules.loops import LoopKind, LoopTree, Scope, StageLoops
from ...schedules.plan.registers import unrolls
from ...schedules.steps.checks import wrong
from ...targets.target import Target
from ...tensor.program import Program
from ..rows import PitchedRows
from .matrix import check_intrinsic

GPU_KINDS = (LoopKind.BLOCK, LoopKind.WARP, LoopKind.THREAD)
CPU_SCOPES = (None, Scope.STACK, Scope.SCRATCH, Scope.REGISTER)


def check_lowers(tree: LoopTree, target: Target) -> None:
    """ScheduleError, with the outline marked, for the first thing that no code is made for."""
    for stage in tree.stages:
        for error in _refusals(tree, stage, target):
            raise error


def check_rows(program: Program, rows: Mapping[str, PitchedRows]) -> None:
    """ScheduleError for rows that begin inside of a dimension of an argument: rewrites may have merged what was apart."""
    for name, lies in rows.items():
        shape = program.tensors[name].shape
        if not lies.fit(shape):
            raise ScheduleError(
                f"the rows of {name} begin inside of one of its dimensions",
                expected=f"a dimension that begins every {lies.length} elements",
                found=f"{program.tensors[name].dtype}{list(shape)}",
            )


def _refusals(tree: LoopTree, stage: StageLoops, target: Target) -> Iterator[ScheduleError]:
    for loop in stage.loops:
        if loop.kind in GPU_KINDS:
            yield wrong(
                tree, loop.name, f"{loop.name} is bound to GPU {loop.kind}s, which no CPU has",
                expected="serial, unrolled, vectorized and parallel loops",
            )  # fmt: skip
    if stage.scope not in CPU_SCOPES:
        yield wrong(
            tree, stage.stage, f"{stage.stage} lives in {stage.scope} memory, which no CPU has",
            expected="a copy to stack or scratch memory",
        )  # fmt: skip
    yield from outside_registers(tree, stage)
    error = check_intrinsic(tree, stage, target) if stage.tensorized else None
    if error is not None:
        yield error
    for hint in stage.hints.said:
        if hint.FOR_GPU and hint.asked:
            yield wrong(
                tree, (*hint.about, stage.stage)[0], f"{hint.WORD} of {hint.numbers[0]} has no code generator yet",
                expected=f"no {hint.WORD}, or one that asks for nothing",
            )  # fmt: skip


def outside_registers(tree: LoopTree, stage: StageLoops) -> Iterator[ScheduleError]:
    """A copy to registers whose elements are not known when the code is written; on any target."""
    if stage.scope is Scope.REGISTER and not unrolls(tree, stage):
        yield wrong(
            tree, stage.stage, f"{stage.stage} cannot stay in registers: it and its reader meet in loops that run in the code",
            expected="a copy whose loops, and those of its one reader inside of the place where it is attached, are all "
            "unrolled or vectorized", advice="copy it to stack memory",
        )  # fmt: skip
