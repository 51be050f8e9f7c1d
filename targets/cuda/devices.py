"""Which NVIDIA devices are here: asked of the driver itself, so that no CUDA package is needed to give a clear answer."""

from __future__ import annotations

import ctypes
from functools import cache

from ...common.errors import TargetError
from ..backend import Gpu
from .levels import LEVELS

_MULTIPROCESSORS, _L2_BYTES = 16, 38  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _L2_CACHE_SIZE
_COMPUTE_MAJOR, _COMPUTE_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


@cache
def gpus() -> tuple[Gpu, ...]:
    """The devices that this process may use, in the driver's order; empty without a driver or a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(_gpu(driver, place) for place in range(count.value))


def _gpu(driver: ctypes.CDLL, place: int) -> Gpu:
    handle, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(100)
    driver.cuDeviceGet(ctypes.byref(handle), place)
    driver.cuDeviceGetName(name, len(name), handle)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
        return value.value

    capability = attribute(_COMPUTE_MAJOR), attribute(_COMPUTE_MINOR)
    return Gpu(name.value.decode(), capability, attribute(_MULTIPROCESSORS), attribute(_L2_BYTES), memory.value)


def device_capabilities() -> tuple[tuple[int, int], ...]:
    """Compute capability (major, minor) of each device."""
    return tuple(gpu.capability for gpu in gpus())


def own_target(gpu: Gpu) -> str:
    """The target that a device is itself: its highest level, with its sizes; "" when it is older than all levels."""
    levels = [level for level in LEVELS if not level.emulated and runs(level.name, gpu.capability)]
    if not levels:
        return ""
    return f"cuda:{levels[-1].name};cores={gpu.multiprocessors};l2={gpu.l2}"


def local_target() -> str:
    """The target that this machine's first GPU is. Errors: TargetError where there is none, or an old one."""
    found = gpus()
    own = own_target(found[0]) if found else ""
    if not own:
        raise TargetError(
            "the target 'cuda' is this machine's GPU, and there is none that kernels can be made for",
            expected="an NVIDIA device of compute capability 7.0 or later, with its driver",
            found=found[0].name if found else "no device",
            advice="name one to compile for it, as in cuda:sm_90a; cuda:emulator runs kernels on any machine",
        )
    return own


def runs(architecture: str, capability: tuple[int, int]) -> bool:
    """Says whether a device runs code for "sm_90": its own or an older one; "sm_90a" means exactly this one."""
    digits = architecture.removeprefix("sm_")
    wanted = int(digits.rstrip("a")[:-1]), int(digits.rstrip("a")[-1])
    return capability == wanted if digits.endswith("a") else capability >= wanted
