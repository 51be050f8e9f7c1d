"""What every device can do. Kernels and timers are written against these protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...codegen.artifact import Artifact

Array = np.ndarray[Any, np.dtype[Any]]


class LoadedKernel(Protocol):
    """Code in memory, ready to be called. May be called by several threads at a time."""

    artifact: Artifact

    def prepare(self, constants: Sequence[Array]) -> None:
        """Takes the constants (program order, host arrays) and computes what is kept of them. Once, before the first run."""
        ...

    def kept(self) -> Sequence[Array]:
        """Returns what `restore` takes in another process, instead of `prepare`: host arrays."""
        ...

    def restore(self, kept: Sequence[Array]) -> None:
        """Takes what `kept` gave of the same artifact. Once, before the first run."""
        ...

    def run(self, arrays: Sequence[Any], stream: int = 0) -> None:
        """Runs once. `arrays`: inputs, then outputs, as `Device.upload` and `Device.empty` give them, C-contiguous, of the
        artifact's shapes and dtypes; nothing is checked. A GPU works on the stream (0: the default one), and may still be at
        work when this returns."""
        ...

    def run_at(self, addresses: Sequence[int], stream: int = 0) -> None:
        """Runs once, as `run` does, on memory at these addresses: the device's. The caller holds it until the end."""
        ...

    def run_if_right(self, *objects: object) -> bool:
        """Runs once if the objects (inputs, then outputs, as many as the kernel has) are arrays exactly as `run` wants them
        and no output shares memory with another. False if not, or if this cannot be told cheaply: then nothing has run."""
        ...

    def run_repeat(self, arrays: Sequence[Any], count: int, cold: bool = False) -> float:
        """Runs `count` times without Python in between (a CPU), or with cold caches and timed by the device (a GPU).
        `cold`: before each run what is kept of constants leaves the caches of the processors. Returns the seconds that all
        of the runs took."""
        ...

    def run_timed(self, arrays: Sequence[Any]) -> Sequence[float]:
        """Runs a model once. Returns the seconds of each of its calls, then of what it copies at the end."""
        ...

    def evict(self, arrays: Sequence[Array]) -> None:
        """Takes the arrays, and what is kept of constants, out of the caches of the processors. Not on a GPU, where
        `run_repeat` does that."""
        ...

    @property
    def facts(self) -> dict[str, dict[str, int]]:
        """Returns what the driver knows of each kernel of the artifact, by symbol; empty where there is none to ask."""
        ...


class Device(Protocol):
    """A place where artifacts run.

    Attributes:
        name: for people: "cpu", "cuda:0", "cuda:emulator".
        own_memory: its arrays are not in the memory of the host: `upload` and `empty` give DeviceArrays.
        clock: what its times are: of the "host", of the "device", or of an "emulation", which tell nothing.
    """

    name: str
    own_memory: bool
    clock: str

    def load(self, artifact: Artifact) -> LoadedKernel:
        """Loads code. Errors: TargetError if it is for another kind of device; EnvironmentFailure if it cannot be loaded."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An uninitialised array that kernels may use as an argument. Errors: OutOfDeviceMemory."""
        ...

    def upload(self, array: Array) -> Any:
        """A host array as an argument of kernels: itself, or a copy in the device's memory. Errors: OutOfDeviceMemory."""
        ...
