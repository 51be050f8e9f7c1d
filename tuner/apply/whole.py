"""compile(program) of a program that is cut into several kernels: each is picked by its own tiers, equal ones once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...graph.executor.compose import compose
from ...graph.executor.provenance import call_origins
from ...runtime.devices.choose import device_or_absent
from ...runtime.kernel import Kernel
from ...tensor.printing import print_program
from ...tensor.program import Program
from ..kernels import Kernels
from ..roofline import program_work
from .kernel_texts import KernelTexts
from .profiler import Profiler
from .together import first_built_of


@dataclass(frozen=True, slots=True)
class ProgramTexts:
    """The texts of a program of several kernels: those of each kind of kernel, one after the other."""

    program: Program
    kernels: tuple[KernelTexts, ...]

    def __call__(self, stage: str) -> str:
        """The text of a stage of `runtime.kernel.STAGES`."""
        if stage == "program":
            return print_program(self.program)
        return "\n".join(f"# kernel {number}\n{texts(stage)}" for number, texts in enumerate(self.kernels))


def compile_parts(
    program: Program,
    kernels: Kernels,
    db: str | Path | None,
    constants: Sequence[object] | Mapping[str, object] | None,
    *,
    strict: bool,
    name: str = "",
) -> Kernel:
    """The kernels of a program as one. Errors: those of `compile`. `name`: of the model, for profiles."""
    parts = kernels.partition
    wanted = [(number, parts.rows(kernel)) for number, kernel in zip(kernels.number, parts.kernels, strict=True)]
    asked = list(dict.fromkeys(wanted))
    found = first_built_of([kernels.tasks[n] for n, _ in asked], db, strict=strict, rows=[rows for _, rows in asked])
    chosen = dict(zip(asked, found, strict=True))
    called = [chosen[one] for one in wanted]
    artifacts = [artifact for _, artifact in called]
    whole = compose(parts.program, parts.kernels, artifacts, parts.aliases, parts.inside)
    accuracy = kernels.tasks[0].accuracy
    provenance = call_origins(
        kernels.partition.kernels,
        [artifact.name for artifact in artifacts],
        lambda kernel: program_work(kernel).flops,
        [replace(pick.provenance, accuracy=accuracy) for pick, _ in called],
    )
    texts = tuple(
        KernelTexts(kernels.first(n), pick.sketch, pick.config, kernels.tasks[n].target, kernels.tasks[n].threads, rows)
        for (n, rows), (pick, _) in chosen.items()
    )
    device = device_or_absent(whole)
    first = kernels.tasks[0]
    profiler = Profiler(provenance.calls, kernels.partition.kernels, first.target, first.threads, name or "model")
    shown = ProgramTexts(program, texts)
    return Kernel(whole, constants, provenance=provenance, texts=shown, profiler=profiler, device=device)
