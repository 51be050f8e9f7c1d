"""Every stage of a program on its way to machine code, as text: of all of its kernels, or of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..common.errors import ArgumentError
from ..common.near import did_you_mean
from ..graph.rewrites.table import rewritten
from ..runtime.kernel import text_stages
from ..schedules.task import Task
from ..targets.host import thread_count
from ..targets.target import Target
from ..tensor.accuracy import Accuracy
from ..tensor.printing import print_program
from ..tensor.program import Program
from .apply.first_built import first_built
from .apply.kernel_texts import KernelTexts
from .kernels import Kernels, parts_of

WHOLE = ("program", "rewritten", "kernels")  # stages of the program as a whole


def stages_for(target: Target) -> tuple[str, ...]:
    """The names of all stages for a target, in the order in which code passes them."""
    return (*WHOLE, *(stage for stage in text_stages(target) if stage not in WHOLE))


def stage_text(
    program: Program,
    stage: str,
    target: Target,
    *,
    kernel: int | None = None,
    threads: int | None = None,
    db: str | Path | None = None,
    accuracy: Accuracy = "default",
) -> str:
    """The text of a program at a stage, with the configurations that `compile` would take.

    Args:
        stage: one of `stages_for` the target.
        kernel: of a program of several kernels only this one, as they are numbered in the stage "kernels".

    Raises:
        ArgumentError: no such stage, or no such kernel.
    """
    if stage not in stages_for(target):
        stages = stages_for(target)
        raise ArgumentError(
            f"there is no stage {stage!r}", expected="one of " + ", ".join(stages), advice=did_you_mean(stage, stages)
        )
    if stage in WHOLE and kernel is None:
        return _whole(program, stage, target)
    return "\n".join(_of_kernels(program, stage, target, kernel, thread_count(threads, target), db, accuracy))


def _whole(program: Program, stage: str, target: Target) -> str:
    if stage == "program":
        return print_program(program)
    if stage == "rewritten":
        return print_program(rewritten(program))
    return "\n".join(f"# kernel {n}\n{print_program(one)}" for n, one in enumerate(_kernels(program, target)))


def _kernels(program: Program, target: Target) -> tuple[Program, ...]:
    parts = parts_of(program, target)
    return (program,) if parts is None else parts.kernels


def _of_kernels(
    program: Program,
    stage: str,
    target: Target,
    kernel: int | None,
    threads: int,
    db: str | Path | None,
    accuracy: Accuracy,
) -> Iterator[str]:
    """The text of each kind of kernel, under a line that says which kernels those are."""
    parts = parts_of(program, target)
    if parts is None:
        _check_number(kernel, 1)
        yield _text(program, Task.of(program, target, threads, accuracy), stage, db)
        return
    kernels = Kernels.of(parts, target, threads, accuracy)
    _check_number(kernel, len(parts.kernels))
    for number, task in enumerate(kernels.tasks):
        alike = [str(n) for n, of in enumerate(kernels.number) if of == number]
        if kernel is None or str(kernel) in alike:
            yield f"# kernel {', '.join(alike)}\n{_text(kernels.first(number), task, stage, db)}"


def _check_number(kernel: int | None, count: int) -> None:
    if kernel is not None and not 0 <= kernel < count:
        raise ArgumentError(f"there is no kernel {kernel}", expected=f"0 to {count - 1}")


def _text(program: Program, task: Task, stage: str, db: str | Path | None) -> str:
    if stage in WHOLE:
        return print_program(program)
    pick, _ = first_built(task, db, strict=False)
    return KernelTexts(program, pick.sketch, pick.config, task.target, task.threads)(stage)
