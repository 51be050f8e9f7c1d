"""The calls of the CUDA driver that Tilesmith makes, as a small interface: each binding implements it in one file.

All calls are made in the device's primary context, which other libraries of the process share, between `push` and `pop`: a
thread's current context is left as it was found. A stream is the driver's handle as an integer; 0 is the default one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .base import Array

# after these a context answers every call with the same error; it must be made anew
STICKY = frozenset({
    "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_INVALID_PC", "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ASSERT", "CUDA_ERROR_LAUNCH_TIMEOUT", "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
})  # fmt: skip
NO_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
LEGACY = 1  # the default stream by its own handle, where 0 may mean another
REFUSED = frozenset({
    "CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_INVALID_SOURCE",
})  # fmt: skip


class DriverError(Exception):
    """A call that failed: the driver's name for the error, and what the JIT wrote, if it was that."""

    def __init__(self, code: str, call: str, log: str = "") -> None:
        super().__init__(f"{code} from {call}" + (f"\n{log}" if log else ""))
        self.code, self.call, self.log = code, call, log


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Holds what a device is. Sizes in bytes; `registers`, `threads` and `shared` are a multiprocessor's."""

    name: str
    bus: str
    capability: tuple[int, int]
    multiprocessors: int
    l2: int
    registers: int
    threads: int
    shared: int
    block_shared: int  # what one block may have at most


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """Holds what the driver made of a kernel: registers of a thread, bytes of local (spilled) and static shared memory."""

    registers: int
    local_bytes: int
    shared_bytes: int
    most_threads: int  # of a block, with these registers


class Driver(Protocol):
    """The calls that a binding implements. Every method but the constructor raises DriverError."""

    def facts(self) -> DeviceFacts:
        """Gives the facts of the device."""
        ...

    def push(self) -> None:
        """Makes the device's context current in this thread; this is cheap."""
        ...

    def pop(self) -> None:
        """Makes the context current again that was so before `push`."""
        ...

    def reset(self) -> None:
        """Ends the primary context with all that is in it, and makes a new one, which takes the pushed one's place."""
        ...

    def load(self, ptx: bytes) -> Any:
        """Loads PTX as a module. A DriverError carries the log of the JIT compiler."""
        ...

    def function(self, module: Any, name: str) -> Any:
        """Finds a kernel of a module by its name."""
        ...

    def unload(self, module: Any) -> None:
        """Gives a module back; none of its kernels is under way."""
        ...

    def describe(self, function: Any) -> FunctionFacts:
        """Says how many registers and how much memory a kernel takes."""
        ...

    def allow_shared(self, function: Any, size: int) -> None:
        """Lets a kernel have more dynamic shared memory than 48 KB."""
        ...

    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        pointers: Sequence[int],
        stream: int,
    ) -> None:
        """Starts a kernel whose parameters are all pointers."""
        ...

    def allocate(self, size: int) -> int:
        """Allocates memory and gives its address; also while a stream is captured into a graph, where the binding can."""
        ...

    def free(self, pointer: int) -> None:
        """Gives the memory back to the device."""
        ...

    def free_memory(self) -> int:
        """Gives the number of bytes that are free."""
        ...

    def upload(self, pointer: int, array: Array, stream: int) -> None:
        """Copies from a host array, which may change afterwards."""
        ...

    def download(self, array: Array, pointer: int, stream: int) -> None:
        """Copies to a host array, and waits until that is done."""
        ...

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Copies from one place of the device to another."""
        ...

    def fill(self, pointer: int, size: int, stream: int) -> None:
        """Fills memory with zeros."""
        ...

    def capturing(self, stream: int) -> int:
        """Gives the number of the capture that a stream is in, whose work becomes a graph and is not done yet; 0 for none."""
        ...

    def event(self, timed: bool) -> Any:
        """Makes an event. `timed`: it knows when it happened."""
        ...

    def record(self, event: Any, stream: int) -> None:
        """Lets an event happen when all before it on the stream is done."""
        ...

    def happened(self, event: Any) -> bool:
        """Says whether an event has happened, without waiting."""
        ...

    def wait(self, stream: int, event: Any) -> None:
        """Lets what comes next on a stream begin after an event; the host does not wait."""
        ...

    def seconds(self, first: Any, last: Any) -> float:
        """Gives the seconds between two events, and waits for the last."""
        ...

    def synchronize(self) -> None:
        """Waits until all work of the context is done."""
        ...
