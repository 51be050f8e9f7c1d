"""compile(program): the best candidate that is known, by tiers, as a callable kernel.

tiers.py says what may serve, in which order. The first that can be built does: what cannot gives way to the next record, and
then to the next tier. At the end of the chain stands the unscheduled nest, with a warning that lists all that failed: that
is a defect of the rules or of the code generator. The kernel says which tier served it (`kernel.provenance`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...codegen.artifact import Artifact, BufferSpec
from ...common.errors import EnvironmentFailure, TargetError
from ...common.garbage import COLLECTED_RARELY
from ...graph.executor.provenance import call_origins
from ...graph.model import Model
from ...measure.calibrate.calibrate import ceilings
from ...runtime.devices.choose import device_or_absent
from ...runtime.devices.cpu.compiler_memory import release_compiler
from ...runtime.kernel import Kernel
from ...schedules.task import Task
from ...targets.host import thread_count, usable_cores
from ...targets.target import Target, check_runs_here, target_of
from ...tensor.accuracy import Accuracy, accuracy_named
from ...tensor.program import Program
from ...tensor.text.canonical import canonical_names
from ..kernels import Kernels, parts_of
from ..roofline import program_work
from .first_built import first_built
from .kernel_texts import KernelTexts
from .pick import Pick
from .profiler import Profiler
from .whole import compile_parts


def compile(
    program: Program | Model,
    *,
    target: str | Target = "host",
    db: str | Path | None = None,
    threads: int | None = None,
    constants: Sequence[object] | Mapping[str, object] | None = None,
    strict: bool = False,
    accuracy: Accuracy = "default",
) -> Kernel:
    """The kernel of a program, with the best configuration that is known for it.

    What is cut into several kernels (graph/partition/) is one kernel to its caller still.

    Args:
        program: a program, or a model, which brings the values of its constants.
        db: the tuning database, or a log of records (.jsonl); by default the database of the settings. A missing one is
            an empty one.
        threads: how many threads it uses; by default all cores of the target.
        constants: values of the program's constants, in its order or by name.
        strict: refuse anything but a record of exactly this task.
        accuracy: "strict" refuses kernels that do more than the program's sums in another order (docs/accuracy.md).

    Raises:
        NoRecordError: strict, and there is no such record.
        TargetError, ArgumentError, DatabaseError: as their messages say.
    """
    resolved = target_of(target)
    if not resolved.is_gpu:  # what a GPU runs can be looked at anywhere
        check_runs_here(resolved)
    return compile_for(program, resolved, db, threads, constants, strict=strict, accuracy=accuracy)


def compile_for(
    program: Program | Model,
    target: Target,
    db: str | Path | None = None,
    threads: int | None = None,
    constants: Sequence[object] | Mapping[str, object] | None = None,
    *,
    strict: bool = False,
    accuracy: Accuracy = "default",
) -> Kernel:
    """Works as `compile`, for any target: what does not run here can be looked at, and exported."""
    with COLLECTED_RARELY:
        kernel = _compiled(program, target, db, threads, constants, strict, accuracy)
    if kernel.artifact.kernels:
        release_compiler()  # now that nobody holds the tasks, which are more than half of what a large model leaves behind
    return kernel


def _compiled(
    program: Program | Model,
    target: Target,
    db: str | Path | None,
    threads: int | None,
    constants: Sequence[object] | Mapping[str, object] | None,
    strict: bool,
    accuracy: Accuracy,
) -> Kernel:
    """The kernel, as one task or as several."""
    name = program.name if isinstance(program, Model) else ""
    if isinstance(program, Model):
        constants = constants or program.constants
        program = program.program
    count, kept = thread_count(threads, target), accuracy_named(accuracy)
    parts = parts_of(program, target) if isinstance(program, Program) else None
    if parts is not None:
        _measure_machine(target, count)
        kernels = Kernels.of(parts, target, count, kept)
        return compile_parts(program, kernels, db, constants, strict=strict, name=name)
    task = Task.of(program, target, count, kept)
    pick, artifact = first_built(task, db, strict=strict)
    return kernel_of(program, task, pick, artifact, constants, name)


def _measure_machine(target: Target, threads: int) -> None:
    """Measures the ceilings of this machine where nobody has: some seconds, once, next to those that many kernels take. What
    the analytic model picks by the numbers of the target alone may be slower (an LSTM on an EPYC 9004: 5.9 ms for 5.0)."""
    if target.is_gpu or threads > usable_cores():
        return
    with suppress(EnvironmentFailure, TargetError):  # then those numbers have to do
        ceilings(target, threads)


def kernel_of(
    program: Program,
    task: Task,
    pick: Pick,
    artifact: Artifact,
    constants: Sequence[object] | Mapping[str, object] | None = None,
    name: str = "",
) -> Kernel:
    """A candidate that was built, as a kernel that knows the person's names; its own is `name` in profiles."""
    artifact = _with_names(artifact, program)
    device = device_or_absent(artifact)
    texts = KernelTexts(program, pick.sketch, pick.config, task.target, task.threads)
    provenance = replace(pick.provenance, accuracy=task.accuracy)
    profiler = Profiler(
        call_origins([program], [artifact.name], lambda kernel: program_work(kernel).flops, [provenance]).calls,
        (program,), task.target, task.threads, name or artifact.name,
    )  # fmt: skip
    return Kernel(artifact, constants, provenance=provenance, texts=texts, profiler=profiler, device=device)


def _with_names(artifact: Artifact, program: Program) -> Artifact:
    names = canonical_names(program)

    def renamed(specs: Iterable[BufferSpec]) -> tuple[BufferSpec, ...]:
        return tuple(replace(spec, name=names.get(spec.name, spec.name)) for spec in specs)

    return replace(
        artifact,
        inputs=renamed(artifact.inputs),
        constants=renamed(artifact.constants),
        outputs=renamed(artifact.outputs),
    )
