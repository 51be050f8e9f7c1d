"""The CUDA driver through NVIDIA's cuda-bindings (the only file that imports it). Raises ImportError where it is missing."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from cuda.bindings import driver as cuda

from ..base import Array
from ..cpu.memory import address
from ..driver import DeviceFacts, DriverError, FunctionFacts

_LOG = 16 << 10  # bytes of the JIT's log that are kept


class BindingsDriver:
    """Implements `driver.Driver`. Errors: DriverError."""

    def __init__(self, number: int) -> None:
        _call(cuda.cuInit, 0)
        self._device = _call(cuda.cuDeviceGet, number)
        self._context = _call(cuda.cuDevicePrimaryCtxRetain, self._device)

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

    def push(self) -> None:
        """See Driver."""
        _call(cuda.cuCtxPushCurrent, self._context)

    def pop(self) -> None:
        """See Driver."""
        _call(cuda.cuCtxPopCurrent)

    def reset(self) -> None:
        """See Driver."""
        self.pop()
        try:
            _call(cuda.cuDevicePrimaryCtxReset, self._device)
            _call(cuda.cuDevicePrimaryCtxRelease, self._device)
            self._context = _call(cuda.cuDevicePrimaryCtxRetain, self._device)
        finally:
            self.push()

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

    def unload(self, module: Any) -> None:
        """See Driver."""
        _call(cuda.cuModuleUnload, module)

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
        stream: int,
    ) -> None:
        """See Driver."""
        values = (ctypes.c_void_p * len(pointers))(*pointers)
        start, step = ctypes.addressof(values), ctypes.sizeof(ctypes.c_void_p)
        places = (ctypes.c_void_p * len(pointers))(*range(start, start + step * len(pointers), step))
        _call(cuda.cuLaunchKernel, function, *grid, *block, shared, stream, ctypes.addressof(places), 0)

    def allocate(self, size: int) -> int:
        """See Driver. In its usual mode a capture forbids this to its thread; the new memory is no part of any graph."""
        mode = _call(cuda.cuThreadExchangeStreamCaptureMode, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            return int(_call(cuda.cuMemAlloc, size))
        finally:
            _call(cuda.cuThreadExchangeStreamCaptureMode, mode)

    def free(self, pointer: int) -> None:
        """See Driver."""
        _call(cuda.cuMemFree, pointer)

    def free_memory(self) -> int:
        """See Driver."""
        free, _ = _call(cuda.cuMemGetInfo)
        return int(free)

    def upload(self, pointer: int, array: Array, stream: int) -> None:
        """See Driver. From memory that is not pinned the driver takes a copy before it returns."""
        _call(cuda.cuMemcpyHtoDAsync, pointer, address(array), array.nbytes, stream)

    def download(self, array: Array, pointer: int, stream: int) -> None:
        """See Driver."""
        _call(cuda.cuMemcpyDtoHAsync, address(array), pointer, array.nbytes, stream)
        _call(cuda.cuStreamSynchronize, stream)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """See Driver."""
        _call(cuda.cuMemcpyDtoDAsync, target, source, size, stream)

    def fill(self, pointer: int, size: int, stream: int) -> None:
        """See Driver."""
        _call(cuda.cuMemsetD8Async, pointer, 0, size, stream)

    def capturing(self, stream: int) -> int:
        """See Driver."""
        state, number, *_ = _call(cuda.cuStreamGetCaptureInfo, stream)
        return int(number) if state == cuda.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE else 0

    def event(self, timed: bool) -> Any:
        """See Driver."""
        return _call(cuda.cuEventCreate, 0 if timed else int(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING))

    def record(self, event: Any, stream: int) -> None:
        """See Driver."""
        _call(cuda.cuEventRecord, event, stream)

    def happened(self, event: Any) -> bool:
        """See Driver."""
        try:
            _call(cuda.cuEventQuery, event)
        except DriverError as error:
            if error.code != "CUDA_ERROR_NOT_READY":
                raise
            return False
        return True

    def wait(self, stream: int, event: Any) -> None:
        """See Driver."""
        _call(cuda.cuStreamWaitEvent, stream, event, 0)

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
