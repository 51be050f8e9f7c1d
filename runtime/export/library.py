"""A C library that `export` wrote, as a device: what Python needs to call it is NumPy alone."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...codegen.artifact import Artifact
from ...common.errors import EnvironmentFailure, InternalError, TargetError
from ..devices.base import Array
from ..devices.cpu.cold import evict
from ..devices.cpu.device import CpuDevice
from ..devices.cpu.memory import address
from .description import read_description
from .source import STATUS

_PROCESSORS = CpuDevice()


class LibraryDevice:
    """The processors, by way of one library; its name is where the description lies."""

    own_memory = False
    clock = "host"

    def __init__(self, description: Path) -> None:
        """Reads what an export says of itself. Errors: ArgumentError."""
        self.artifact, self._shared, self._weights, self.about = read_description(description)
        self.name = str(description.resolve())

    def load(self, artifact: Artifact) -> LibraryKernel:
        """Loads it and its weights. Errors: TargetError, EnvironmentFailure."""
        try:
            library = ctypes.CDLL(str(self._shared.resolve()))
            functions = {name: getattr(library, f"{artifact.symbol}_{name}") for name in ("init", "run", "error")}
        except (OSError, AttributeError) as error:
            raise EnvironmentFailure(f"{self._shared} cannot be loaded", found=str(error)) from error
        functions["error"].restype = ctypes.c_char_p
        status = functions["init"](None if self._weights is None else str(self._weights).encode())
        if status:
            kind = TargetError if status == STATUS.index("UNSUPPORTED") else EnvironmentFailure
            raise kind(f"{self._shared} does not run here", found=functions["error"](status).decode())
        return LibraryKernel(artifact, functions["run"])

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialised array, as on the processors without a library."""
        return _PROCESSORS.empty(shape, dtype)

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
        places = [address(array) for array in arrays]
        given, made = self._types
        if self._run(given(*places[: self._inputs]), made(*places[self._inputs :]), None):
            raise InternalError(f"the library of {self.artifact.name} failed", advice="is there memory left?")

    def run_if_right(self, *objects: object) -> bool:
        """Leaves it to the caller to look at the objects."""
        return False

    def run_repeat(self, arrays: Sequence[Array], count: int) -> float:
        """See LoadedKernel; Python is in between."""
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
