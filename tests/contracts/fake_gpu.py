"""A CUDA driver that is none: modules with the calls of cuda-bindings and of pycuda, which record what they are asked.

Memory and kernels are the emulator's: for each PTX that may be loaded, `FakeGpu.knows` gives the same candidate compiled for
the emulator. `fails` names calls that fail, with the driver's error.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tilesmith.codegen.artifact import Artifact, Launch
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
}


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

    def knows(self, ptx: Artifact, emulated: Artifact) -> None:
        self.known[ptx.code] = emulated

    def call(self, name: str) -> None:
        self.calls.append(name)
        error, times = self.fails.get(name, ("", 0))
        if times:
            self.fails[name] = error, times - 1
            raise Refused(error, self.log)

    def load(self, ptx: bytes) -> Any:
        artifact = self.known[ptx.rstrip(b"\0")]
        return SimpleNamespace(artifact=artifact, module=self.port.load(artifact))

    def launch(self, function: Any, grid: Any, block: Any, shared: int, pointers: Sequence[int]) -> None:
        loaded, name = function
        launch = Launch(name, tuple(grid), tuple(block), shared)
        self.port.launch(loaded.module, launch, pointers, 0)
        self.clock += 1e-3

    def reset(self) -> None:
        self.port = EmulatorPort()


def bindings_module(gpu: FakeGpu) -> ModuleType:
    """As `cuda.bindings.driver`."""
    fake: Any = ModuleType("cuda.bindings.driver")
    codes = ["CUDA_SUCCESS", *WORDS]
    fake.CUresult = IntEnum("CUresult", {name: n for n, name in enumerate(codes)})  # type: ignore[misc]
    fake.CUdevice_attribute = SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{n}": n for n in ATTRIBUTES})
    fake.CUfunction_attribute = SimpleNamespace(
        **{f"CU_FUNC_ATTRIBUTE_{n}": n for n in (*FUNCTION, "MAX_DYNAMIC_SHARED_SIZE_BYTES")}
    )
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

    results = {"cuMemAlloc": 1, "cuModuleLoadDataEx": 1, "cuDeviceGet": 1, "cuEventElapsedTime": 1}

    def launch(function: Any, *given: Any) -> None:
        grid, block, shared, places = given[:3], given[3:6], given[6], given[8]
        count = len(function[0].module.names)
        values = (ctypes.c_void_p * count).from_address(places)
        pointers = [ctypes.c_uint64.from_address(value).value for value in values]
        gpu.launch(function, grid, block, shared, pointers)

    def device(number: int) -> int:
        if number >= gpu.devices:
            raise Refused("CUDA_ERROR_INVALID_DEVICE", "")
        return number

    for name, body in {
        "cuInit": lambda flags: None,
        "cuDeviceGet": device,
        "cuDevicePrimaryCtxRetain": lambda device: "context",
        "cuDevicePrimaryCtxReset": lambda device: gpu.reset(),
        "cuDevicePrimaryCtxRelease": lambda device: None,
        "cuCtxSetCurrent": lambda context: None,
        "cuCtxSynchronize": lambda: None,
        "cuDeviceGetAttribute": lambda name, device: ATTRIBUTES[name],
        "cuDeviceGetName": lambda size, device: b"Fake\0\0",
        "cuDeviceGetPCIBusId": lambda size, device: b"0000:00\0",
        "cuModuleLoadDataEx": lambda ptx, *options: gpu.load(ptx),
        "cuModuleGetFunction": lambda module, name: ((module, name.decode()),),
        "cuFuncGetAttribute": lambda name, function: FUNCTION[name],
        "cuFuncSetAttribute": lambda function, name, value: None,
        "cuLaunchKernel": launch,
        "cuMemAlloc": lambda size: gpu.port.allocate(size),  # noqa: PLW0108  (a reset replaces the port)
        "cuMemFree": lambda pointer: gpu.port.free(pointer),  # noqa: PLW0108
        "cuMemGetInfo": lambda: (12345, 1 << 30),
        "cuMemcpyHtoD": lambda to, source, size: ctypes.memmove(to, source, size) and None,
        "cuMemcpyDtoH": lambda to, source, size: ctypes.memmove(to, source, size) and None,
        "cuMemcpyDtoDAsync": lambda to, source, size, stream: ctypes.memmove(to, source, size) and None,
        "cuMemsetD8Async": lambda to, value, size, stream: ctypes.memset(to, value, size) and None,
        "cuEventCreate": lambda flags: SimpleNamespace(at=0.0),
        "cuEventRecord": lambda event, stream: setattr(event, "at", gpu.clock),
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
            call("cuMemAlloc")
            self.pointer = gpu.port.allocate(size)

        def __int__(self) -> int:
            return self.pointer

        def free(self) -> None:
            call("cuMemFree")
            gpu.port.free(self.pointer)

    class Function:
        num_regs, local_size_bytes, shared_size_bytes, max_threads_per_block = FUNCTION.values()

        def __init__(self, module: Any, name: str) -> None:
            self.what = module, name

        def set_attribute(self, name: str, value: int) -> None:
            call("cuFuncSetAttribute")

        def prepare(self, kinds: str) -> None:
            assert kinds == "P" * len(self.what[0].module.names)

        def prepared_call(self, grid: Any, block: Any, *pointers: int, shared_size: int = 0) -> None:
            call("cuLaunchKernel")
            gpu.launch(self.what, grid, block, shared_size, pointers)

    class Context:
        @staticmethod
        def synchronize() -> None:
            call("cuCtxSynchronize")

        def push(self) -> None:
            call("cuCtxPushCurrent")

        def pop(self) -> None:
            call("cuCtxPopCurrent")

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

        def record(self) -> None:
            call("cuEventRecord")
            self.at = gpu.clock

        def synchronize(self) -> None:
            pass

        def time_till(self, last: Event) -> float:
            call("cuEventElapsedTime")
            return (last.at - self.at) * 1e3

    def module_from_buffer(ptx: bytes, message_handler: Any) -> Any:
        try:
            call("cuModuleLoadDataEx")
        except Error:
            message_handler(False, "", gpu.log)
            raise
        loaded = gpu.load(ptx)
        loaded.get_function = lambda name: Function(loaded, name)
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
    package = "tilesmith.runtime.devices"
    names = ["pycuda", "pycuda.driver", "cuda", "cuda.bindings", "cuda.bindings.driver"]
    names += [f"{package}.cuda_bindings", f"{package}.cuda_pycuda"]
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


def random_array(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, np.float32)
