"""What every device can do. Kernels and timers are written against these protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...codegen.artifact import Artifact

Array = NDArray[Any]


class LoadedKernel(Protocol):
    """Code in memory, ready to be called. May be called by several threads at a time."""

    artifact: Artifact

    def prepare(self, constants: Sequence[Array]) -> None:
        """Takes the constants (program order) and computes what is kept of them. Once, before the first run."""
        ...

    def run(self, arrays: Sequence[Array]) -> None:
        """Runs once. `arrays`: inputs, then outputs, C-contiguous, of the artifact's shapes and dtypes; nothing is checked."""
        ...

    def run_repeat(self, arrays: Sequence[Array], count: int) -> float:
        """Runs `count` times in a compiled loop. Returns the seconds that all of them took."""
        ...


class Device(Protocol):
    """A place where artifacts run."""

    name: str

    def load(self, artifact: Artifact) -> LoadedKernel:
        """Loads code. Errors: TargetError if it is for another kind of device; EnvironmentFailure if it cannot be loaded."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialised array that kernels may use as an argument."""
        ...
