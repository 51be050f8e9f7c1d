"""What a model is made of, and where its time goes, for people to see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...runtime.kernel import Kernel
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
    """What a model's `kernel.provenance` is: one entry for each call, in order."""

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
            CallOrigin(name, tuple(dict.fromkeys(stage.origin for stage in kernel.stages)), operations(kernel), source)
            for kernel, name, source in zip(kernels, names, sources, strict=True)
        )
    )


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """The time of one call, and its share of the whole run."""

    call: CallOrigin
    seconds: float
    share: float

    @property
    def gflops(self) -> float:
        """Operations by the time, in 1e9 a second."""
        return self.call.operations / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The calls of a run in order, and the seconds of what is copied after them."""

    rows: tuple[ProfileRow, ...]
    copies: float

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        return sum(row.seconds for row in self.rows) + self.copies

    def __str__(self) -> str:
        """A table, the slowest calls first."""
        lines = [f"{'share':>6} {'us':>10} {'GFLOP/s':>8}  kernel, origins"]
        for row in sorted(self.rows, key=lambda one: -one.seconds):
            origins = ", ".join(dict.fromkeys(one.layer or one.operator for one in row.call.origins))
            lines.append(f"{row.share:6.1%} {row.seconds * 1e6:10.1f} {row.gflops:8.1f}  {row.call.name} ({origins})")
        return "\n".join([*lines, f"{1:6.0%} {self.seconds * 1e6:10.1f}"])


def profile(kernel: Kernel, *inputs: object) -> Profile:
    """Where the time of a model goes, measured within runs of the whole: each call finds the caches as those before it leave
    them. A clock is read after each call, which takes some 20 ns. Inputs are random by default.

    The kernel's provenance is a ModelProvenance. Raises ArgumentError for a kernel that is no model.
    """
    *calls, copies = kernel.call_seconds(*inputs)
    total = sum(calls) + copies
    origins = kernel.provenance
    assert isinstance(origins, ModelProvenance)
    rows = [
        ProfileRow(call, seconds, seconds / total if total else 0.0)
        for call, seconds in zip(origins.calls, calls, strict=True)
    ]
    return Profile(tuple(rows), copies)
