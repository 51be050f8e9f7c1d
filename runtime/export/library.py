"""A C library that `export` wrote, as a device: what Python needs to call it is NumPy alone."""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...codegen.artifact import Artifact
from ...common.errors import EnvironmentFailure, InternalError, TargetError
from ...targets.machine import machine_kind
from ..devices.base import Array
from ..devices.cpu.cold import evict
from ..devices.cpu.memory import address, output_array
from .description import STATUS, read_description


class LibraryDevice:
    """The processors, by way of one library; its name is where the description lies."""

    own_memory = False
    clock = "host"

    def __init__(self, description: str | os.PathLike[str]) -> None:
        """Reads what a library says of itself, and looks at its files. Errors: ArgumentError."""
        self._described = described = read_description(description)
        self.artifact, self.about = described.artifact, described.provenance
        self.name = os.path.realpath(description)

    def load(self, artifact: Artifact) -> LibraryKernel:
        """Loads it and its weights. Errors: TargetError, EnvironmentFailure."""
        self._check_kind()
        shared, weights = self._described.shared, self._described.weights
        try:
            library = ctypes.CDLL(os.path.realpath(shared))
            functions = {name: getattr(library, f"{artifact.symbol}_{name}") for name in ("init", "run", "error")}
        except (OSError, AttributeError) as error:
            raise EnvironmentFailure(f"{shared} cannot be loaded", found=str(error)) from error
        functions["error"].restype = ctypes.c_char_p
        status = functions["init"](None if weights is None else os.fsencode(weights))
        if status == STATUS.index("UNSUPPORTED"):
            raise self._wrong_processor(f"{platform.machine()}, which lacks what that is")
        if status:
            raise EnvironmentFailure(f"{shared} does not run here", found=functions["error"](status).decode())
        return LibraryKernel(artifact, functions["run"])

    def _check_kind(self) -> None:
        """Asked before the system is, which says of another machine's code that it found no library. What of its kind the
        processor has, the library asks itself."""
        if machine_kind() != self.artifact.target.partition(":")[0]:
            raise self._wrong_processor(platform.machine())

    def _wrong_processor(self, found: str) -> TargetError:
        return TargetError(
            f"{self._described.shared} has no code for this processor",
            expected=" or ".join(self._described.targets), found=found,
            advice="compile it for this processor, or for several (targets=)",
        )  # fmt: skip

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialised array, as on the processors without a library."""
        return output_array(shape, dtype)

    def upload(self, array: Array) -> Array:
        """The array itself."""
        return array


class LibraryKernel:
    """The `LoadedKernel` of a library; its constants are in it."""

    def __init__(self, artifact: Artifact, run: Any) -> None:
        self.artifact = artifact
        self._run = run
        self._inputs = len(artifact.inputs)
        self._types = ctypes.c_void_p * self._inputs, ctypes.c_void_p * len(artifact.outputs)

    @property
    def facts(self) -> dict[str, dict[str, int]]:
        """Returns nothing: there is no driver."""
        return {}

    def prepare(self, constants: Sequence[Array]) -> None:
        """Does nothing: there are none."""

    def kept(self) -> Sequence[Array]:
        """Returns nothing."""
        return ()

    def restore(self, kept: Sequence[Array]) -> None:
        """Does nothing."""

    def run(self, arrays: Sequence[Array], stream: int = 0) -> None:
        """See LoadedKernel. Raises InternalError where memory is short."""
        self.run_at([address(array) for array in arrays])

    def run_at(self, addresses: Sequence[int], stream: int = 0) -> None:
        """See LoadedKernel. Raises InternalError where memory is short."""
        given, made = self._types
        if self._run(given(*addresses[: self._inputs]), made(*addresses[self._inputs :]), None):
            raise InternalError(f"the library of {self.artifact.name} failed", advice="is there memory left?")

    def run_if_right(self, *objects: object) -> bool:
        """Leaves it to the caller to look at the objects."""
        return False

    def run_repeat(self, arrays: Sequence[Array], count: int, cold: bool = False) -> float:
        """See LoadedKernel; Python is in between, and weights stay where they are."""
        started = time.perf_counter()
        for _ in range(count):
            self.run(arrays)
        return time.perf_counter() - started

    def run_timed(self, arrays: Sequence[Array]) -> Sequence[float]:
        """The time of all calls as one."""
        return [self.run_repeat(arrays, 1), 0.0]

    def evict(self, arrays: Sequence[Array]) -> None:
        """See LoadedKernel; weights stay where they are."""
        evict(list(arrays))
