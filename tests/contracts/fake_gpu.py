"""A CUDA driver that is none. It records what it is asked through the modules of fake_drivers.py.

Memory and kernels are the emulator's: for each PTX that may be loaded, `FakeGpu.knows` gives the same candidate compiled for
the emulator. `fails` names calls that fail, with the driver's error; `breaks` is a kernel whose fault is noticed later, as a
real one's is. Calls that need a context fail an assertion where ours is not the current one; what a capture forbids is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tilesmith.codegen.artifact import Artifact, Launch
from tilesmith.runtime.devices.cuda.device import flush
from tilesmith.runtime.devices.emulator import EmulatorPort

ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132, "L2_CACHE_SIZE": 1 << 20,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536, "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 << 10, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
}  # fmt: skip
FUNCTION = {"NUM_REGS": 40, "LOCAL_SIZE_BYTES": 0, "SHARED_SIZE_BYTES": 0, "MAX_THREADS_PER_BLOCK": 1024}
WORDS = {
    "CUDA_ERROR_OUT_OF_MEMORY": "out of memory",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an illegal memory access was encountered",
    "CUDA_ERROR_INVALID_PTX": "a PTX JIT compilation failed",
    "CUDA_ERROR_LAUNCH_FAILED": "unspecified launch failure",
    "CUDA_ERROR_INVALID_DEVICE": "invalid device ordinal",
    "CUDA_ERROR_NOT_SUPPORTED": "operation not supported",
    "CUDA_ERROR_ECC_UNCORRECTABLE": "uncorrectable ECC error encountered",
    "CUDA_ERROR_NOT_READY": "device not ready",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "operation not permitted when stream is capturing",
}
OURS = "context"
ANYWHERE = ("cuInit", "cuDevice", "cuCtxPush", "cuCtxPop", "cuThread")  # calls that need no context, and no working one
UNCAPTURED = (
    "cuMemAlloc", "cuMemFree", "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuModuleLoadDataEx",
    "cuModuleUnload", "cuMemcpyDtoHAsync",
)  # fmt: skip


class Loaded:
    """A module; of the kernel that only reads it has no artifact."""

    def __init__(self, artifact: Artifact | None, module: Any) -> None:
        self.artifact, self.module = artifact, module
        self.function: Any = None

    def get_function(self, name: str) -> Any:
        return self.function(self, name)


class Refused(Exception):
    def __init__(self, code: str, log: str) -> None:
        self.code, self.log = code, log


class FakeGpu:
    """What both modules stand on."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails: dict[str, tuple[str, int]] = {}  # call -> error, how often
        self.log = ""
        self.port = EmulatorPort()
        self.known: dict[bytes, Artifact] = {}
        self.devices = 1
        self.clock = 0.0
        self.contexts = ["of the caller"]  # of the thread, the current one last
        self.broken = ""
        self.breaking = ("", 0)
        self.captures: dict[int, int] = {}  # stream -> number
        self.relaxed = 0
        self.done = True  # whether events have happened
        self.work: list[tuple[str, int]] = []  # what was asked for on which stream
        self.loaded = 0
        self.live: set[int] = set()  # allocations

    def knows(self, ptx: Artifact, emulated: Artifact) -> None:
        self.known[ptx.code] = emulated

    def breaks(self, code: str, launches: int = 1) -> None:
        """The last of so many launches from now on does what it may not."""
        self.breaking = code, launches

    def call(self, name: str) -> None:
        self.calls.append(name)
        if not name.startswith(ANYWHERE):
            assert self.contexts[-1] == OURS, f"{name} in a context {self.contexts[-1]}"
            if self.broken:
                raise Refused(self.broken, "")
        if self.captures and name in UNCAPTURED and not (name == "cuMemAlloc" and self.relaxed):
            raise Refused("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "")
        error, times = self.fails.get(name, ("", 0))
        if times:
            self.fails[name] = error, times - 1
            raise Refused(error, self.log)

    def load(self, ptx: bytes) -> Any:
        self.loaded += 1
        if flush.SYMBOL.encode() in ptx:
            return Loaded(None, SimpleNamespace(names=("memory",)))
        artifact = self.known[ptx.rstrip(b"\0")]
        return Loaded(artifact, self.port.load(artifact))

    def launch(
        self, function: Any, grid: Any, block: Any, shared: int, pointers: Sequence[int], stream: int = 0
    ) -> None:
        loaded, name = function
        self.work.append((name, stream))
        if loaded.artifact is None or stream in self.captures:
            return
        code, left = self.breaking
        if left:
            self.breaking = code, left - 1
            if left == 1:
                self.broken = code
                return
        launch = Launch(name, tuple(grid), tuple(block), shared)
        self.port.launch(loaded.module, launch, pointers, 0)
        self.clock += 1e-3

    def allocate(self, size: int) -> int:
        pointer = self.port.allocate(size)
        self.live.add(pointer)
        return pointer

    def free(self, pointer: int) -> None:
        assert pointer in self.live, "nobody has this allocation, or somebody else"
        self.live.remove(pointer)
        self.port.free(pointer)

    def reset(self) -> None:
        """What was allocated is gone; its addresses serve again, here at once."""
        old = self.port
        self.port = EmulatorPort()
        self.graveyard = old  # so that no address of ours is that of something else in this process
        self.live.clear()
        self.broken, self.loaded = "", 0

    def push(self) -> None:
        self.contexts.append(OURS)

    def pop(self) -> None:
        assert self.contexts.pop() == OURS
