"""The CUDA driver through pycuda (the only file that imports it). Raises ImportError where it, or the driver, is missing.

pycuda has streams of its own making only: work is refused on those of other libraries, and so are captures into graphs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pycuda.driver as cuda

from ....common.errors import EnvironmentFailure
from ..base import Array
from ..driver import LEGACY, DeviceFacts, DriverError, FunctionFacts

# pycuda's errors carry the text of the driver's error, in words: "cuMemAlloc failed: out of memory"
_CODES = {
    "out of memory": "CUDA_ERROR_OUT_OF_MEMORY",
    "an illegal memory access was encountered": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "misaligned address": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "an illegal instruction was encountered": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "unspecified launch failure": "CUDA_ERROR_LAUNCH_FAILED",
    "the launch timed out and was terminated": "CUDA_ERROR_LAUNCH_TIMEOUT",
    "too many resources requested for launch": "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "hardware stack error": "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "invalid program counter": "CUDA_ERROR_INVALID_PC",
    "operation not supported on global/shared address space": "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "device-side assert triggered": "CUDA_ERROR_ASSERT",
    "uncorrectable ECC error encountered": "CUDA_ERROR_ECC_UNCORRECTABLE",
    "a PTX JIT compilation failed": "CUDA_ERROR_INVALID_PTX",
    "the provided PTX was compiled with an unsupported toolchain": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "no kernel image is available for execution on the device": "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "device kernel image is invalid": "CUDA_ERROR_INVALID_IMAGE",
    "invalid device ordinal": "CUDA_ERROR_INVALID_DEVICE",
    "context is destroyed": "CUDA_ERROR_CONTEXT_IS_DESTROYED",
}


class PycudaDriver:
    """Implements `driver.Driver`. Errors: DriverError."""

    def __init__(self, number: int) -> None:
        _call(cuda.init)
        self._device = _call(cuda.Device, number)
        self._context = _call(self._device.retain_primary_context)
        self._allocations: dict[int, Any] = {}  # pycuda frees what nobody holds

    def facts(self) -> DeviceFacts:
        """See Driver."""
        names, device = cuda.device_attribute, self._device

        def attribute(name: str) -> int:
            return int(_call(device.get_attribute, getattr(names, name)))

        return DeviceFacts(
            name=str(_call(device.name)),
            bus=str(_call(device.pci_bus_id)),
            capability=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
            multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
            l2=attribute("L2_CACHE_SIZE"),
            registers=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            threads=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            shared=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            block_shared=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        )

    def push(self) -> None:
        """See Driver."""
        _call(self._context.push)

    def pop(self) -> None:
        """See Driver."""
        _call(cuda.Context.pop)

    def reset(self) -> None:
        """See Driver. pycuda has no call for it: the reference is given back, which ends a context that nobody shares.

        An allocation that stayed would free its address later, which by then is somebody else's: all are given back first.
        """
        for allocation in self._allocations.values():
            with suppress(cuda.Error):
                allocation.free()
        self._allocations.clear()
        self.pop()
        try:
            _call(self._context.detach)
            self._context = _call(self._device.retain_primary_context)
        finally:
            self.push()
        self.synchronize()  # a context that others hold is still the broken one

    def load(self, ptx: bytes) -> Any:
        """See Driver."""
        log: list[str] = []

        def heard(success: bool, info: str, errors: str) -> None:
            log.append(errors or info)

        try:
            return _call(lambda: cuda.module_from_buffer(ptx, message_handler=heard), name="module_from_buffer")
        except DriverError as error:
            raise DriverError(error.code, error.call, "\n".join(log) or error.log) from None

    def function(self, module: Any, name: str) -> Any:
        """See Driver."""
        return _call(module.get_function, name)

    def unload(self, module: Any) -> None:
        """See Driver. pycuda unloads what nobody holds."""

    def describe(self, function: Any) -> FunctionFacts:
        """See Driver."""
        return FunctionFacts(
            int(function.num_regs), int(function.local_size_bytes), int(function.shared_size_bytes),
            int(function.max_threads_per_block),
        )  # fmt: skip

    def allow_shared(self, function: Any, size: int) -> None:
        """See Driver."""
        _call(function.set_attribute, cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, size)

    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        pointers: Sequence[int],
        stream: int,
    ) -> None:
        """See Driver."""
        _own(stream)
        function.prepare("P" * len(pointers))
        _call(lambda: function.prepared_call(grid, block, *pointers, shared_size=shared), name="prepared_call")

    def allocate(self, size: int) -> int:
        """See Driver."""
        allocation = _call(cuda.mem_alloc, size)
        pointer = int(allocation)
        self._allocations[pointer] = allocation
        return pointer

    def free(self, pointer: int) -> None:
        """See Driver."""
        _call(self._allocations.pop(pointer).free)

    def free_memory(self) -> int:
        """See Driver."""
        free, _ = _call(cuda.mem_get_info)
        return int(free)

    def upload(self, pointer: int, array: Array, stream: int) -> None:
        """See Driver."""
        _own(stream)
        _call(cuda.memcpy_htod, pointer, array)

    def download(self, array: Array, pointer: int, stream: int) -> None:
        """See Driver."""
        _own(stream)
        _call(cuda.memcpy_dtoh, array, pointer)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """See Driver."""
        _own(stream)
        _call(cuda.memcpy_dtod_async, target, source, size)

    def fill(self, pointer: int, size: int, stream: int) -> None:
        """See Driver."""
        _own(stream)
        _call(cuda.memset_d8_async, pointer, 0, size)

    def capturing(self, stream: int) -> int:
        """See Driver."""
        _own(stream)
        return 0

    def event(self, timed: bool) -> Any:
        """See Driver."""
        return _call(cuda.Event)

    def record(self, event: Any, stream: int) -> None:
        """See Driver."""
        _own(stream)
        _call(event.record)

    def happened(self, event: Any) -> bool:
        """See Driver."""
        return bool(_call(event.query))

    def wait(self, stream: int, event: Any) -> None:
        """See Driver. All work is on one stream."""
        _own(stream)

    def seconds(self, first: Any, last: Any) -> float:
        """See Driver."""
        _call(last.synchronize)
        return float(_call(first.time_till, last)) * 1e-3

    def synchronize(self) -> None:
        """See Driver."""
        _call(cuda.Context.synchronize)


def _own(stream: int) -> None:
    """Returns for the default stream. Errors: EnvironmentFailure."""
    if stream not in (0, LEGACY):
        raise EnvironmentFailure(
            "pycuda cannot work on a stream of another library",
            expected="the default stream",
            found=f"stream {stream:#x}",
            advice="install cuda-bindings, which is taken before pycuda: pip install 'tilesmith[cuda-bindings]'",
        )


def _call(function: Callable[..., Any], *arguments: Any, name: str = "") -> Any:
    try:
        return function(*arguments)
    except cuda.Error as error:
        words = str(error)
        code = next((code for text, code in _CODES.items() if text in words), "")
        match = re.match(r"(\w+) failed", words)
        call = match[1] if match else name or getattr(function, "__name__", "a call")
        raise DriverError(code or f"CUDA_ERROR ({words})", call, words if not code else "") from error
