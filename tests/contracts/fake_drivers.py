"""Modules with the calls of cuda-bindings and of pycuda, over the driver of fake_gpu.py."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

from contracts.fake_gpu import ATTRIBUTES, FUNCTION, OURS, WORDS, FakeGpu, Refused


def bindings_module(gpu: FakeGpu) -> ModuleType:
    """As `cuda.bindings.driver`."""
    fake: Any = ModuleType("cuda.bindings.driver")
    codes = ["CUDA_SUCCESS", *WORDS]
    fake.CUresult = IntEnum("CUresult", {name: n for n, name in enumerate(codes)})  # type: ignore[misc]
    fake.CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{n}": n for n in ATTRIBUTES})
    fake.CUfunction_attribute = SimpleNamespace(
        **{f"CU_FUNC_ATTRIBUTE_{n}": n for n in (*FUNCTION, "MAX_DYNAMIC_SHARED_SIZE_BYTES")}
    )
    fake.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    fake.CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_ACTIVE=1)
    fake.CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    fake.CUjit_option = SimpleNamespace(CU_JIT_ERROR_LOG_BUFFER=1, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=2)

    def define(name: str, body: Any) -> None:
        def function(*given: Any) -> tuple[Any, ...]:
            try:
                gpu.call(name)
                found = body(*given)
            except Refused as error:
                if name == "cuModuleLoadDataEx":
                    given[3][0][: len(error.log)] = error.log.encode()
                return (fake.CUresult[error.code], *(None,) * results.get(name, 0))
            if found is None:
                return (fake.CUresult.CUDA_SUCCESS,)
            return (fake.CUresult.CUDA_SUCCESS, *(found if isinstance(found, tuple) else (found,)))

        function.__name__ = name
        setattr(fake, name, function)

    results = {
        "cuMemAlloc": 1, "cuModuleLoadDataEx": 1, "cuDeviceGet": 1, "cuEventElapsedTime": 1, "cuEventCreate": 1,
        "cuStreamGetCaptureInfo": 2, "cuDevicePrimaryCtxRetain": 1,
    }  # fmt: skip

    def launch(function: Any, *given: Any) -> None:
        grid, block, shared, places = given[:3], given[3:6], given[6], given[8]
        count = len(function[0].module.names)
        values = (ctypes.c_void_p * count).from_address(places)
        pointers = [ctypes.c_uint64.from_address(value).value for value in values]
        gpu.launch(function, grid, block, shared, pointers, given[7])

    def copy(name: str) -> Any:
        def body(to: int, source: int, size: int, stream: int) -> None:
            gpu.work.append((name, stream))
            ctypes.memmove(to, source, size)

        return body

    def exchange(mode: int) -> int:
        gpu.relaxed, before = int(mode == 2), gpu.relaxed
        return 2 * before

    def query(event: Any) -> None:
        if not gpu.done:
            raise Refused("CUDA_ERROR_NOT_READY", "")

    def record(event: Any, stream: int) -> None:
        event.at, event.stream = gpu.clock, stream
        gpu.work.append(("record", stream))

    def device(number: int) -> int:
        if number >= gpu.devices:
            raise Refused("CUDA_ERROR_INVALID_DEVICE", "")
        return number

    for name, body in {
        "cuInit": lambda flags: None,
        "cuDeviceGet": device,
        "cuDevicePrimaryCtxRetain": lambda device: OURS,
        "cuDevicePrimaryCtxReset": lambda device: gpu.reset(),
        "cuDevicePrimaryCtxRelease": lambda device: None,
        "cuCtxPushCurrent": lambda context: gpu.push(),
        "cuCtxPopCurrent": gpu.pop,
        "cuStreamSynchronize": lambda stream: gpu.work.append(("synchronize", stream)),
        "cuStreamWaitEvent": lambda stream, event, flags: gpu.work.append((f"wait for {event.stream}", stream)),
        "cuStreamGetCaptureInfo": lambda stream: (int(stream in gpu.captures), gpu.captures.get(stream, 0), None),
        "cuThreadExchangeStreamCaptureMode": exchange,
        "cuEventQuery": query,
        "cuCtxSynchronize": lambda: None,
        "cuDeviceGetAttribute": lambda name, device: ATTRIBUTES[name],
        "cuDeviceGetName": lambda size, device: b"Fake\0\0",
        "cuDeviceGetPCIBusId": lambda size, device: b"0000:00\0",
        "cuModuleLoadDataEx": lambda ptx, *options: gpu.load(ptx),
        "cuModuleUnload": lambda module: setattr(gpu, "loaded", gpu.loaded - 1),
        "cuModuleGetFunction": lambda module, name: ((module, name.decode()),),
        "cuFuncGetAttribute": lambda name, function: FUNCTION[name],
        "cuFuncSetAttribute": lambda function, name, value: None,
        "cuLaunchKernel": launch,
        "cuMemAlloc": gpu.allocate,
        "cuMemFree": gpu.free,
        "cuMemGetInfo": lambda: (12345, 1 << 30),
        "cuMemcpyHtoDAsync": copy("upload"),
        "cuMemcpyDtoHAsync": copy("download"),
        "cuMemcpyDtoDAsync": copy("copy"),
        "cuMemsetD8Async": lambda to, value, size, stream: ctypes.memset(to, value, size) and None,
        "cuEventCreate": lambda flags: SimpleNamespace(at=0.0, stream=None),
        "cuEventRecord": record,
        "cuEventSynchronize": lambda event: None,
        "cuEventElapsedTime": lambda first, last: (last.at - first.at) * 1e3,
    }.items():
        define(name, body)
    return fake


def pycuda_module(gpu: FakeGpu) -> ModuleType:
    """As `pycuda.driver`."""
    fake: Any = ModuleType("pycuda.driver")

    class Error(Exception):
        pass

    def call(name: str) -> None:
        try:
            gpu.call(name)
        except Refused as error:
            raise Error(f"{name} failed: {WORDS[error.code]}") from None

    class Allocation:
        def __init__(self, size: int) -> None:
            self.valid = False
            call("cuMemAlloc")
            self.pointer, self.valid = gpu.allocate(size), True

        def __int__(self) -> int:
            return self.pointer

        def free(self) -> None:
            """As pycuda's: what goes wrong is a warning, and it is never tried again."""
            if self.valid:
                self.valid = False
                gpu.calls.append("cuMemFree")
                if not gpu.broken:
                    gpu.free(self.pointer)

        __del__ = free

    class Function:
        num_regs, local_size_bytes, shared_size_bytes, max_threads_per_block = FUNCTION.values()

        def __init__(self, module: Any, name: str) -> None:
            call("cuModuleGetFunction")
            self.what = module, name

        def set_attribute(self, name: str, value: int) -> None:
            call("cuFuncSetAttribute")

        def prepare(self, kinds: str) -> None:
            assert kinds == "P" * len(self.what[0].module.names), kinds

        def prepared_call(self, grid: Any, block: Any, *pointers: int, shared_size: int = 0) -> None:
            call("cuLaunchKernel")
            gpu.launch(self.what, grid, block, shared_size, pointers)

    class Context:
        @staticmethod
        def synchronize() -> None:
            call("cuCtxSynchronize")

        def push(self) -> None:
            call("cuCtxPushCurrent")
            gpu.push()

        @staticmethod
        def pop() -> None:
            call("cuCtxPopCurrent")
            gpu.pop()

        def detach(self) -> None:
            call("cuDevicePrimaryCtxRelease")
            gpu.reset()

    class Device:
        def __init__(self, number: int) -> None:
            if number >= gpu.devices:
                raise Error("cuDeviceGet failed: invalid device ordinal")

        def retain_primary_context(self) -> Context:
            return Context()

        def get_attribute(self, name: str) -> int:
            return ATTRIBUTES[name]

        def name(self) -> str:
            return "Fake"

        def pci_bus_id(self) -> str:
            return "0000:00"

    class Event:
        at = 0.0

        def query(self) -> bool:
            return gpu.done

        def record(self) -> None:
            call("cuEventRecord")
            self.at = gpu.clock

        def synchronize(self) -> None:
            pass

        def time_till(self, last: Event) -> float:
            call("cuEventElapsedTime")
            return (last.at - self.at) * 1e3

    def unloaded() -> None:
        gpu.loaded -= 1

    def module_from_buffer(ptx: bytes, message_handler: Any) -> Any:
        try:
            call("cuModuleLoadDataEx")
        except Error:
            message_handler(False, "", gpu.log)
            raise
        loaded = gpu.load(ptx)
        weakref.finalize(loaded, unloaded)
        loaded.function = Function
        return loaded

    def htod(to: int, array: Any) -> None:
        call("cuMemcpyHtoD")
        ctypes.memmove(to, array.ctypes.data, array.nbytes)

    def dtoh(array: Any, source: int) -> None:
        call("cuMemcpyDtoH")
        ctypes.memmove(array.ctypes.data, source, array.nbytes)

    fake.__dict__.update(
        Error=Error, Context=Context, Device=Device, Event=Event, module_from_buffer=module_from_buffer,
        init=lambda: call("cuInit"), mem_alloc=Allocation, memcpy_htod=htod, memcpy_dtoh=dtoh,
        memcpy_dtod_async=ctypes.memmove,
        memset_d8_async=ctypes.memset, mem_get_info=lambda: (12345, 1 << 30),
        device_attribute=SimpleNamespace(**{name: name for name in ATTRIBUTES}),
        function_attribute=SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="shared"),
    )  # fmt: skip
    return fake


@contextmanager
def installed(gpu: FakeGpu, binding: str) -> Iterator[None]:
    """The binding "bindings" or "pycuda" is importable, the other is not; "" for none."""
    package = "tilesmith.runtime.devices.cuda"
    names = ["pycuda", "pycuda.driver", "cuda", "cuda.bindings", "cuda.bindings.driver"]
    names += [f"{package}.bindings", f"{package}.pycuda_binding"]
    before = {name: sys.modules.get(name) for name in names}
    parents = {"bindings": ("cuda", "cuda.bindings"), "pycuda": ("pycuda",), "": ()}[binding]
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(dict.fromkeys(("pycuda", "cuda"), None))  # type: ignore[arg-type]
    for name in parents:
        sys.modules[name] = ModuleType(name)
    if binding == "bindings":
        driver = bindings_module(gpu)
        sys.modules["cuda.bindings"].driver = sys.modules["cuda.bindings.driver"] = driver  # type: ignore[attr-defined]
    elif binding == "pycuda":
        driver = pycuda_module(gpu)
        sys.modules["pycuda"].driver = sys.modules["pycuda.driver"] = driver  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
