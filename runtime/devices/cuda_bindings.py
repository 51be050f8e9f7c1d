"""The CUDA driver through NVIDIA's cuda-bindings (the only file that imports it). Raises ImportError where it is missing."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from cuda.bindings import driver as cuda

from .base import Array
from .driver import DeviceFacts, DriverError, FunctionFacts
from .memory import address

_LOG = 16 << 10  # bytes of the JIT's log that are kept
_STREAM = 0  # the default one


class BindingsDriver:
    """Implements `driver.Driver`. Errors: DriverError."""

    def __init__(self, number: int) -> None:
        _call(cuda.cuInit, 0)
        self._device = _call(cuda.cuDeviceGet, number)
        self._context = _call(cuda.cuDevicePrimaryCtxRetain, self._device)
        self.enter()

    def facts(self) -> DeviceFacts:
        """See Driver."""
        names = cuda.CUdevice_attribute

        def attribute(name: str) -> int:
            return int(_call(cuda.cuDeviceGetAttribute, getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}"), self._device))

        return DeviceFacts(
            name=_text(_call(cuda.cuDeviceGetName, 128, self._device)),
            bus=_text(_call(cuda.cuDeviceGetPCIBusId, 32, self._device)),
            capability=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
            multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
            l2=attribute("L2_CACHE_SIZE"),
            registers=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            threads=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            shared=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            block_shared=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        )

    def enter(self) -> None:
        """See Driver."""
        _call(cuda.cuCtxSetCurrent, self._context)

    def reset(self) -> None:
        """See Driver."""
        _call(cuda.cuDevicePrimaryCtxReset, self._device)
        _call(cuda.cuDevicePrimaryCtxRelease, self._device)
        self._context = _call(cuda.cuDevicePrimaryCtxRetain, self._device)
        self.enter()

    def load(self, ptx: bytes) -> Any:
        """See Driver."""
        log, names = bytearray(_LOG), cuda.CUjit_option
        options = [names.CU_JIT_ERROR_LOG_BUFFER, names.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        try:
            return _call(cuda.cuModuleLoadDataEx, ptx + b"\0", len(options), options, [log, _LOG])
        except DriverError as error:
            raise DriverError(error.code, error.call, _text(bytes(log))) from None

    def function(self, module: Any, name: str) -> Any:
        """See Driver."""
        return _call(cuda.cuModuleGetFunction, module, name.encode())

    def describe(self, function: Any) -> FunctionFacts:
        """See Driver."""
        names = cuda.CUfunction_attribute

        def attribute(name: str) -> int:
            return int(_call(cuda.cuFuncGetAttribute, getattr(names, f"CU_FUNC_ATTRIBUTE_{name}"), function))

        return FunctionFacts(
            attribute("NUM_REGS"), attribute("LOCAL_SIZE_BYTES"), attribute("SHARED_SIZE_BYTES"),
            attribute("MAX_THREADS_PER_BLOCK"),
        )  # fmt: skip

    def allow_shared(self, function: Any, size: int) -> None:
        """See Driver."""
        name = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _call(cuda.cuFuncSetAttribute, function, name, size)

    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        pointers: Sequence[int],
    ) -> None:
        """See Driver."""
        values = (ctypes.c_void_p * len(pointers))(*pointers)
        start, step = ctypes.addressof(values), ctypes.sizeof(ctypes.c_void_p)
        places = (ctypes.c_void_p * len(pointers))(*range(start, start + step * len(pointers), step))
        _call(cuda.cuLaunchKernel, function, *grid, *block, shared, _STREAM, ctypes.addressof(places), 0)

    def allocate(self, size: int) -> int:
        """See Driver."""
        return int(_call(cuda.cuMemAlloc, size))

    def free(self, pointer: int) -> None:
        """See Driver."""
        _call(cuda.cuMemFree, pointer)

    def free_memory(self) -> int:
        """See Driver."""
        free, _ = _call(cuda.cuMemGetInfo)
        return int(free)

    def upload(self, pointer: int, array: Array) -> None:
        """See Driver."""
        _call(cuda.cuMemcpyHtoD, pointer, address(array), array.nbytes)

    def download(self, array: Array, pointer: int) -> None:
        """See Driver."""
        _call(cuda.cuMemcpyDtoH, address(array), pointer, array.nbytes)

    def copy(self, target: int, source: int, size: int) -> None:
        """See Driver."""
        _call(cuda.cuMemcpyDtoDAsync, target, source, size, _STREAM)

    def fill(self, pointer: int, size: int) -> None:
        """See Driver."""
        _call(cuda.cuMemsetD8Async, pointer, 0, size, _STREAM)

    def event(self) -> Any:
        """See Driver."""
        return _call(cuda.cuEventCreate, 0)

    def record(self, event: Any) -> None:
        """See Driver."""
        _call(cuda.cuEventRecord, event, _STREAM)

    def seconds(self, first: Any, last: Any) -> float:
        """See Driver."""
        _call(cuda.cuEventSynchronize, last)
        return float(_call(cuda.cuEventElapsedTime, first, last)) * 1e-3

    def synchronize(self) -> None:
        """See Driver."""
        _call(cuda.cuCtxSynchronize)


def _call(function: Any, *arguments: Any) -> Any:
    """The results of a call: none, one, or a tuple. Errors: DriverError."""
    status, *results = function(*arguments)
    if status != cuda.CUresult.CUDA_SUCCESS:
        raise DriverError(status.name, function.__name__)
    return results[0] if len(results) == 1 else tuple(results) or None


def _text(content: bytes) -> str:
    return content.partition(b"\0")[0].decode(errors="replace").strip()
