"""A kernel as a part of a library: the code for one processor, and what it takes from the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...codegen.artifact import Artifact
from ...common.errors import ArgumentError, TargetError
from ...targets.in_c import InC
from ...targets.target import Target, parse_target
from ..devices.base import Array
from .description import FORMAT

PAGE = 4096
HEAD = 64  # bytes at the begin of the weights, which say of which export they are


@dataclass(frozen=True, slots=True)
class Variant:
    """The code for one processor. `prepared`: what its constants were prepared to, where this machine could do that; else
    `constants` holds all of them, and the library prepares them. Otherwise they are those that calls read, by number."""

    artifact: Artifact
    target: Target
    prepared: Array | None
    constants: dict[int, Array]

    @property
    def in_c(self) -> InC:
        """Returns how C sees this kind of processor."""
        known = self.target.backend.in_c
        assert known is not None
        return known

    @property
    def runs_here(self) -> str:
        """A C expression that is not 0 where the code may run."""
        return " && ".join(self.in_c.asks[feature] for feature in self.target.features)

    @property
    def processor(self) -> str:
        """The processor, as in "x86:avx512+avx512vnni"."""
        return "+".join([f"{self.target.kind}:{self.target.level}", *self.target.extensions])

    @property
    def prepares(self) -> bool:
        """Says whether the library has to prepare the constants."""
        return self.artifact.prepared_bytes > 0 and self.prepared is None


def variant_of(artifact: Artifact, kept: Sequence[Array], is_absent: bool) -> Variant:
    """The variant that a kernel becomes, of what it keeps: all constants where its processor is absent, else what was prepared
    of them and those that calls read. Errors: TargetError for a GPU's."""
    if artifact.format == FORMAT:
        raise ArgumentError(f"{artifact.name} was loaded: it is saved already", advice="copy its folder")
    target = parse_target(artifact.target)
    if artifact.format != "object" or target.backend.in_c is None:
        raise TargetError("only kernels for processors become libraries", found=f"{artifact.name} for {target.text}")
    if is_absent:
        return Variant(artifact, target, None, dict(enumerate(kept)))
    prepared = kept[0] if artifact.prepared_bytes else None
    held = kept[1:] if artifact.prepared_bytes else kept
    return Variant(artifact, target, prepared, dict(zip(artifact.held, held, strict=True)))


def check_alike(variants: Sequence[Variant]) -> None:
    """Checks that all compute the same from the same, each for another target of one machine. Errors: ArgumentError."""
    first = variants[0]

    def interface(one: Variant) -> object:
        return one.artifact.inputs, one.artifact.constants, one.artifact.outputs

    for other in variants[1:]:
        if interface(other) != interface(first):
            raise ArgumentError("the kernels of a library take different arrays", found=other.artifact.name)
        if other.target.kind != first.target.kind:
            raise ArgumentError(
                "one library is for one kind of machine",
                found=f"{first.target.text} and {other.target.text}", advice="export one library for each",
            )  # fmt: skip
    targets = [one.target.text for one in variants]
    if len(set(targets)) < len(targets):
        raise ArgumentError("two kernels of a library are for the same target", found=", ".join(targets))


class Weights:
    """The bytes of all that variants take from constants; what is equal stands once."""

    def __init__(self) -> None:
        self.blobs: list[tuple[int, Array]] = []
        self.bytes = HEAD
        self._known: dict[tuple[int, int], int] = {}

    def place(self, array: Array) -> int:
        """Returns the offset of an array's bytes, at the begin of a page."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        key = (array.__array_interface__["data"][0], flat.nbytes)
        if key not in self._known:
            at = -(-self.bytes // PAGE) * PAGE
            self.blobs.append((at, flat))
            self._known[key], self.bytes = at, at + flat.nbytes
        return self._known[key]

    @property
    def empty(self) -> bool:
        """Says whether nobody takes anything."""
        return not self.blobs
