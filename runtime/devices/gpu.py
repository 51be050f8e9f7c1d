"""GPUs, whoever drives them: arrays in a device's own memory, and kernels of several launches.

A *port* is what differs between the CUDA driver, through whichever binding, and the emulator.

Work is asked for on a *stream*, in whose order it is done; 0 is the device's default one. Memory that is used on one stream
after another is ordered between the two, without the host waiting. While a stream is *captured*, nothing is done: what is
asked for becomes a graph, which somebody starts later, and again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn, Protocol

import numpy as np

from ...codegen.artifact import Artifact, Launch
from ...common.errors import ArgumentError, InternalError
from ...common.forks import lock
from .base import Array
from .driver import LEGACY

Pointers = Sequence[int]


class Port(Protocol):
    """A GPU as GpuDevice needs it. Addresses and streams are integers; see the head of this file."""

    name: str
    cuda: bool  # whether other CUDA libraries can use its addresses
    generation: int  # counts how often everything on the device was lost

    def allocate(self, size: int, stream: int = 0) -> int:
        """The address of `size` new bytes, at a multiple of 256, for work on a stream. Errors: OutOfDeviceMemory."""
        ...

    def free(self, pointer: int, stream: int = 0) -> None:
        """Gives back an allocation that was used last on this stream. Asks nothing of the device."""
        ...

    def upload(self, pointer: int, array: Array, stream: int = 0) -> None:
        """Copies a C-contiguous host array to the device."""
        ...

    def download(self, array: Array, pointer: int, stream: int = 0) -> None:
        """Copies from the device to a C-contiguous host array, after all that was asked for before on the stream."""
        ...

    def copy(self, target: int, source: int, size: int, stream: int = 0) -> None:
        """Copies inside of the device's memory."""
        ...

    def order(self, stream: int, after: int) -> None:
        """Lets what comes next on `stream` begin when all that was asked for on `after` is done."""
        ...

    def capturing(self, stream: int) -> int:
        """The number of the capture that a stream is in; 0 for none."""
        ...

    def hold(self, owners: Sequence[Any], stream: int) -> None:
        """Keeps objects until all that was asked for on the stream is done."""
        ...

    def load(self, artifact: Artifact) -> Any:
        """Loads the code. Errors: TargetError, EnvironmentFailure."""
        ...

    def unload(self, module: Any) -> None:
        """Gives code back that nobody starts any more, but may be running. Asks nothing of the device."""
        ...

    def facts(self, module: Any) -> dict[str, dict[str, int]]:
        """Returns what the driver knows of each kernel: registers, local_bytes, shared_bytes, blocks (a multiprocessor)."""
        ...

    def launch(self, module: Any, launch: Launch, pointers: Pointers, read_only: int, stream: int = 0) -> None:
        """Starts one launch; the first `read_only` pointers are only read. Errors: KernelFault, here or later."""
        ...

    def timed(self, run: Callable[[], None], count: int) -> float:
        """Seconds that `count` runs take on the device, with cold caches. Errors: KernelFault."""
        ...

    def synchronize(self) -> None:
        """Waits for all that was asked for. Errors: KernelFault."""
        ...


@dataclass(slots=True)
class _DeviceMemory:
    """An allocation: where, of which generation of the device, and the stream of its last use."""

    pointer: int
    generation: int
    stream: int


class DeviceArray:
    """A C-contiguous array in a GPU's memory, uninitialised at first. Freed when nobody holds it any more.

    Other libraries can take it where they know __cuda_array_interface__. What a fault of a kernel took away from the device
    is gone: whoever uses such an array gets an ArgumentError.
    """

    def __init__(self, port: Port, shape: tuple[int, ...], dtype: np.dtype[Any], stream: int = 0) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.nbytes = prod(self.shape) * self.dtype.itemsize
        self.device = port.name
        self.port = port
        self._memory = _DeviceMemory(port.allocate(max(1, self.nbytes), stream), port.generation, stream)
        weakref.finalize(self, _free, port, self._memory)

    @property
    def pointer(self) -> int:
        """Its address. Errors: ArgumentError if it was lost."""
        if self._memory.generation != self.port.generation:
            raise ArgumentError(
                f"an array on {self.device} was lost: a kernel's fault has taken all memory of the device with it",
                expected="an array made after that",
                found=repr(self),
                advice="make it again, from what is in host memory",
            )
        return self._memory.pointer

    @property
    def stream(self) -> int:
        """The stream of its last use."""
        return self._memory.stream

    def use_on(self, stream: int) -> None:
        """Moves it to this stream, after all that was asked for on the one before."""
        if self._memory.stream != stream:
            self.port.order(stream, self._memory.stream)
            self._memory.stream = stream

    def numpy(self) -> Array:
        """A copy in host memory."""
        array = np.empty(self.shape, self.dtype)
        self.download(array)
        return array

    def download(self, array: Array) -> None:
        """Copies to a C-contiguous host array of the same size."""
        self.port.download(array, self.pointer, self.stream)

    def copy_from(self, other: DeviceArray) -> None:
        """Copies an array of the same size on the same device."""
        other.use_on(self.stream)
        self.port.copy(self.pointer, other.pointer, self.nbytes, self.stream)

    def fill(self, array: Array) -> None:
        """Copies a host array of the same size here."""
        self.port.upload(self.pointer, np.ascontiguousarray(array), self.stream)

    def __getattr__(self, name: str) -> Any:
        if name == "__cuda_array_interface__" and self.port.cuda:
            return {
                "shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False), "version": 3,
                "stream": self.stream or LEGACY,
            }  # fmt: skip
        raise AttributeError(f"a DeviceArray on {self.__dict__.get('device')} has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on {self.device}>"


def _free(port: Port, memory: _DeviceMemory) -> None:
    if memory.generation == port.generation:  # else it is gone, and the address may be somebody else's
        port.free(memory.pointer, memory.stream)


def _unload(port: Port, module: Any, generation: int) -> None:
    if generation == port.generation:
        port.unload(module)


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

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: int = 0) -> DeviceArray:
        """An uninitialised array in the device's memory. Errors: OutOfDeviceMemory."""
        return DeviceArray(self.port, shape, dtype, stream)

    def upload(self, array: Array, stream: int = 0) -> DeviceArray:
        """A copy of a host array in the device's memory. Errors: OutOfDeviceMemory."""
        copy = self.empty(array.shape, array.dtype, stream)
        copy.fill(array)
        return copy


class GpuKernel:
    """A loaded artifact (implements `base.LoadedKernel`): its launches follow each other on the device.

    Calls share one workspace, and so follow each other too, on whatever streams they are. A graph that is captured has one
    of its own, since nobody can tell when it runs: the one that was made ahead when the kernel first ran beside the default
    stream, because a capture is no time for allocations. What was captured stays until the process ends.
    """

    def __init__(self, artifact: Artifact, port: Port) -> None:
        self.artifact = artifact
        self._port = port
        self._ready = not artifact.constants
        self._inputs, self._outputs = len(artifact.inputs), len(artifact.outputs)
        self._nulls = (0,) * len(artifact.constants)
        self._constants: Sequence[Any] = ()
        self._lock = lock()
        self._load()

    def _load(self) -> None:
        artifact, port = self.artifact, self._port
        self._generation = port.generation
        self._module = port.load(artifact)
        self._captured: dict[int, DeviceArray | None] = {}  # workspaces by capture
        self._unloading = weakref.finalize(self, _unload, port, self._module, port.generation)
        self._prepared = _bytes(port, artifact.prepared_bytes)
        self._workspace = self._made_workspace()
        self._spare: DeviceArray | None = None

    def _made_workspace(self) -> DeviceArray | None:
        return _bytes(self._port, self.artifact.workspace_bytes)

    @property
    def facts(self) -> dict[str, dict[str, int]]:
        """Returns what the driver knows of each kernel; see `Port.facts`."""
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
            own = (_pointer(self._prepared), _pointer(self._workspace))
            pointers = (*(0,) * self._inputs, *(one.pointer for one in there), *(0,) * self._outputs, *own)
            for launch in self.artifact.prepare_launches:
                self._port.launch(self._module, launch, pointers, self._inputs + len(there))
            self._port.synchronize()  # so any stream may read what was prepared
        self._ready = True

    def kept(self) -> Sequence[Array]:
        """See `LoadedKernel.kept`: the constants."""
        return list(self._constants)

    def restore(self, kept: Sequence[Array]) -> None:
        """See `LoadedKernel.restore`."""
        self.prepare(kept or [None] * len(self._nulls))  # none is looked at

    def run(self, arrays: Sequence[Any], stream: int = 0) -> None:
        """See `LoadedKernel.run`: `arrays` have a `pointer`. The device may still be at work when this returns."""
        for array in arrays:
            if isinstance(array, DeviceArray):
                array.use_on(stream)
        self.run_at([array.pointer for array in arrays], stream)

    def run_at(self, addresses: Sequence[int], stream: int = 0) -> None:
        """See `LoadedKernel.run_at`."""
        if not self._ready:
            raise InternalError("the kernel was not given its constants", advice="call prepare first")
        pointers = [*addresses[: self._inputs], *self._nulls, *addresses[self._inputs :]]
        read_only = self._inputs + len(self._nulls)
        with self._lock:  # launches of two calls must not mix: they share the workspace
            if self._generation != self._port.generation:
                self._load()
                self.prepare(self._constants or [None] * len(self._nulls))
            pointers += (_pointer(self._prepared), _pointer(self._workspace_on(stream)))
            for launch in self.artifact.launches:
                self._port.launch(self._module, launch, pointers, read_only, stream)

    def _workspace_on(self, stream: int) -> DeviceArray | None:
        """The workspace of a call on a stream; notes that a graph needs this kernel, if the call becomes one's part."""
        capture = self._port.capturing(stream) if stream else 0
        if capture:
            if capture not in self._captured:
                self._captured[capture], self._spare = self._spare or self._made_workspace(), None
                _CAPTURED.append((self._unloading.detach(), self._captured))
            return self._captured[capture]
        if self._workspace is not None:
            self._workspace.use_on(stream)
            if stream and self._spare is None:
                self._spare = self._made_workspace()
        return self._workspace

    def run_if_right(self, *objects: object) -> bool:
        """See `LoadedKernel.run_if_right`: a launch costs more than looking at arrays."""
        return False

    def evict(self, arrays: Sequence[Array]) -> None:
        """See `LoadedKernel.evict`: `run_repeat` does it."""

    def run_repeat(self, arrays: Sequence[Any], count: int, cold: bool = False) -> float:
        """See `LoadedKernel.run_repeat`."""
        return self._port.timed(lambda: self.run(arrays), count)

    def run_timed(self, arrays: Sequence[Any]) -> NoReturn:
        """Fails: there are no models for GPUs."""
        raise InternalError("a kernel of a GPU is no model", found=self.artifact.name)


_CAPTURED: list[object] = []  # code and workspaces that graphs use


def _bytes(port: Port, size: int) -> DeviceArray | None:
    return DeviceArray(port, (size,), np.dtype(np.uint8)) if size else None


def _pointer(array: DeviceArray | None) -> int:
    return array.pointer if array is not None else 0
