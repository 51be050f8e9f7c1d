"""A device that is not here: kernels for it can be compiled and looked at anywhere, and say what is missing when called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ...codegen.artifact import Artifact
from ...common.errors import TilesmithError
from .base import Array


class AbsentKernel:
    """A `LoadedKernel` of a device that is not here."""

    facts: dict[str, dict[str, int]]

    def __init__(self, artifact: Artifact, why: TilesmithError) -> None:
        self.artifact = artifact
        self.facts = {}
        self._why = why
        self._constants: Sequence[Array] = ()

    def prepare(self, constants: Sequence[Array]) -> None:
        """Keeps them for where the kernel runs."""
        self._constants = constants

    def kept(self) -> Sequence[Array]:
        """The constants."""
        return self._constants

    def restore(self, kept: Sequence[Array]) -> None:
        """Fails as `prepare` does."""
        self._constants = kept

    def run(self, arrays: Sequence[Any], stream: int = 0) -> NoReturn:
        """Raises the error that says why the device is not here."""
        raise self._why

    def run_at(self, addresses: Sequence[int], stream: int = 0) -> NoReturn:
        """Fails as `run` does."""
        raise self._why

    def run_if_right(self, *objects: object) -> NoReturn:
        """Fails as `run` does."""
        raise self._why

    def evict(self, arrays: Sequence[Array]) -> None:
        """Does nothing: nothing is here."""

    def run_repeat(self, arrays: Sequence[Any], count: int, cold: bool = False) -> NoReturn:
        """Fails as `run` does."""
        raise self._why

    def run_timed(self, arrays: Sequence[Any]) -> NoReturn:
        """Fails as `run` does."""
        raise self._why


class AbsentDevice:
    """A `Device` that takes artifacts and runs none; `why` is raised by whoever asks for more."""

    own_memory = True
    clock = "device"

    def __init__(self, name: str, why: TilesmithError) -> None:
        self.name = name
        self.why = why

    def load(self, artifact: Artifact) -> AbsentKernel:
        """The artifact, to be looked at."""
        return AbsentKernel(artifact, self.why)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: int = 0) -> NoReturn:
        """Raises the error that says why the device is not here."""
        raise self.why

    def upload(self, array: Array, stream: int = 0) -> NoReturn:
        """Fails as `empty` does."""
        raise self.why
