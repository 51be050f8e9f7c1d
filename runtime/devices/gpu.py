"""GPUs, whoever drives them: arrays in a device's own memory, and kernels of several launches.

A *port* is what differs between the CUDA driver, through whichever binding, and the emulator.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from ...codegen.artifact import Artifact, Launch
from ...common.errors import InternalError
from .base import Array

Pointers = Sequence[int]


class Port(Protocol):
    """A GPU as GpuDevice needs it. Addresses are integers; all work is done in the order in which it is asked for."""

    name: str
    cuda: bool  # whether other CUDA libraries can use its addresses
    generation: int  # counts how often everything on the device was lost

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes, at a multiple of 256. Errors: OutOfDeviceMemory."""
        ...

    def free(self, pointer: int) -> None:
        """Gives an allocation back."""
        ...

    def upload(self, pointer: int, array: Array) -> None:
        """Copies a C-contiguous host array to the device."""
        ...

    def download(self, array: Array, pointer: int) -> None:
        """Copies from the device to a C-contiguous host array, after all that was asked for before."""
        ...

    def copy(self, target: int, source: int, size: int) -> None:
        """Copies inside of the device's memory."""
        ...

    def load(self, artifact: Artifact) -> Any:
        """Loads the code. Errors: TargetError, EnvironmentFailure."""
        ...

    def facts(self, module: Any) -> dict[str, dict[str, int]]:
        """For each kernel what the driver knows of it: registers, local_bytes, shared_bytes, blocks (a multiprocessor)."""
        ...

    def launch(self, module: Any, launch: Launch, pointers: Pointers, read_only: int) -> None:
        """Starts one launch; the first `read_only` pointers are only read. Errors: KernelFault, here or later."""
        ...

    def timed(self, run: Callable[[], None], count: int) -> float:
        """Seconds that `count` runs take on the device, with cold caches. Errors: KernelFault."""
        ...

    def synchronize(self) -> None:
        """Waits for all that was asked for. Errors: KernelFault."""
        ...


class DeviceArray:
    """A C-contiguous array in a GPU's memory, uninitialised at first. Freed when nobody holds it any more.

    `pointer` is its address. Other libraries can take it where they know __cuda_array_interface__.
    """

    def __init__(self, port: Port, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.nbytes = prod(self.shape) * self.dtype.itemsize
        self.device = port.name
        self.port = port
        self.pointer = port.allocate(max(1, self.nbytes))
        weakref.finalize(self, _free, port, self.pointer, port.generation)

    def numpy(self) -> Array:
        """A copy in host memory."""
        array = np.empty(self.shape, self.dtype)
        self.download(array)
        return array

    def download(self, array: Array) -> None:
        """Copies to a C-contiguous host array of the same size."""
        self.port.download(array, self.pointer)

    def copy_from(self, other: DeviceArray) -> None:
        """Copies an array of the same size on the same device."""
        self.port.copy(self.pointer, other.pointer, self.nbytes)

    def fill(self, array: Array) -> None:
        """Copies a host array of the same size here."""
        self.port.upload(self.pointer, np.ascontiguousarray(array))

    def __getattr__(self, name: str) -> Any:
        if name == "__cuda_array_interface__" and self.port.cuda:
            return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False), "version": 3}
        raise AttributeError(f"a DeviceArray on {self.__dict__.get('device')} has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on {self.device}>"


def _free(port: Port, pointer: int, generation: int) -> None:
    if generation == port.generation:  # else it is gone, and the address may be somebody else's
        port.free(pointer)


class GpuDevice:
    """A GPU (implements `base.Device`)."""

    own_memory = True

    def __init__(self, port: Port) -> None:
        self.port = port
        self.name = port.name
        self.clock = "device" if port.cuda else "emulation"

    def load(self, artifact: Artifact) -> GpuKernel:
        """See `Device.load`."""
        return GpuKernel(artifact, self.port)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """An uninitialised array in the device's memory. Errors: OutOfDeviceMemory."""
        return DeviceArray(self.port, shape, dtype)

    def upload(self, array: Array) -> DeviceArray:
        """A copy of a host array in the device's memory. Errors: OutOfDeviceMemory."""
        copy = self.empty(array.shape, array.dtype)
        copy.fill(array)
        return copy


class GpuKernel:
    """A loaded artifact (implements `base.LoadedKernel`): its launches follow each other on the device."""

    def __init__(self, artifact: Artifact, port: Port) -> None:
        self.artifact = artifact
        self._port = port
        self._ready = not artifact.constants
        self._inputs, self._outputs = len(artifact.inputs), len(artifact.outputs)
        self._nulls = (0,) * len(artifact.constants)
        self._constants: Sequence[Any] = ()
        self._lock = threading.Lock()
        self._load()

    def _load(self) -> None:
        artifact, port, byte = self.artifact, self._port, np.dtype(np.uint8)
        self._generation = port.generation
        self._module = port.load(artifact)
        self._prepared = DeviceArray(port, (artifact.prepared_bytes,), byte) if artifact.prepared_bytes else None
        self._workspace = DeviceArray(port, (artifact.workspace_bytes,), byte) if artifact.workspace_bytes else None
        self._own = tuple(array.pointer if array else 0 for array in (self._prepared, self._workspace))

    @property
    def facts(self) -> dict[str, dict[str, int]]:
        """What the driver knows of each kernel; see `Port.facts`."""
        return self._port.facts(self._module)

    def prepare(self, constants: Sequence[Any]) -> None:
        """See `LoadedKernel.prepare`; the constants are host arrays."""
        if len(constants) != len(self._nulls):
            raise InternalError(
                "a wrong number of constants", expected=str(len(self._nulls)), found=str(len(constants))
            )
        if self.artifact.prepare_launches:
            self._constants = constants  # should all on the device be lost
            there = []
            for constant in constants:
                there.append(DeviceArray(self._port, constant.shape, constant.dtype))
                there[-1].fill(constant)
            pointers = (*(0,) * self._inputs, *(one.pointer for one in there), *(0,) * self._outputs, *self._own)
            for launch in self.artifact.prepare_launches:
                self._port.launch(self._module, launch, pointers, self._inputs + len(there))
            self._port.synchronize()
        self._ready = True

    def run(self, arrays: Sequence[Any]) -> None:
        """See `LoadedKernel.run`: `arrays` have a `pointer`. The device may still be at work when this returns."""
        if not self._ready:
            raise InternalError("the kernel was not given its constants", advice="call prepare first")
        pointers = [array.pointer for array in arrays]
        if self._generation != self._port.generation:
            self._load()
            self.prepare(self._constants or [None] * len(self._nulls))
        pointers[self._inputs : self._inputs] = self._nulls
        pointers += self._own
        read_only = self._inputs + len(self._nulls)
        with self._lock:  # launches of two calls must not mix: they share the workspace
            for launch in self.artifact.launches:
                self._port.launch(self._module, launch, pointers, read_only)

    def run_if_right(self, *objects: object) -> bool:
        """See `LoadedKernel.run_if_right`: a launch costs more than looking at arrays."""
        return False

    def run_repeat(self, arrays: Sequence[Any], count: int) -> float:
        """See `LoadedKernel.run_repeat`."""
        return self._port.timed(lambda: self.run(arrays), count)
