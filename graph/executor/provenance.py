"""What a model is made of, for people to see. profile.py tells where its time goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...tensor.program import Origin, Program


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """One call of a kernel: its name, the origins of its stages, its operations, and where its configuration comes from."""

    name: str
    origins: tuple[Origin, ...]
    operations: int
    provenance: object = None


@dataclass(frozen=True, slots=True)
class ModelProvenance:
    """Holds what a model's `kernel.provenance` is: one entry for each call, in order."""

    calls: tuple[CallOrigin, ...]

    def __str__(self) -> str:
        """One line for each kernel, the most frequent first."""
        found = Counter((call.name, str(call.provenance)) for call in self.calls)
        lines = [f"{count:5} x {name}: {provenance}" for (name, provenance), count in found.most_common()]
        return "\n".join([f"{len(self.calls)} calls of {len(found)} kernels", *lines])


def call_origins(
    kernels: Sequence[Program],
    names: Sequence[str],
    operations: Callable[[Program], int],
    provenances: Sequence[object] | None = None,
) -> ModelProvenance:
    """The provenance of a model of these kernels. `operations` counts those that a program needs."""
    sources = [None] * len(kernels) if provenances is None else provenances
    return ModelProvenance(
        tuple(
            CallOrigin(name, origins_of(kernel), operations(kernel), source)
            for kernel, name, source in zip(kernels, names, sources, strict=True)
        )
    )


def origins_of(kernel: Program) -> tuple[Origin, ...]:
    """Returns where all stages come from, and all that was written into them, in order and each once."""
    return tuple(dict.fromkeys(origin for stage in kernel.stages for origin in stage.origin.all))
