"""Which NVIDIA devices are here: asked of the driver itself, so that no CUDA package is needed to give a clear answer."""

from __future__ import annotations

import ctypes
from functools import cache

from .target import Target

_COMPUTE_MAJOR, _COMPUTE_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


@cache
def device_capabilities() -> tuple[tuple[int, int], ...]:
    """Compute capability (major, minor) of each device; empty without a driver or a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(
        (_attribute(driver, device, _COMPUTE_MAJOR), _attribute(driver, device, _COMPUTE_MINOR))
        for device in range(count.value)
    )


def _attribute(driver: ctypes.CDLL, device: int, number: int) -> int:
    value, handle = ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(handle), device)
    driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
    return value.value


def missing_device(target: Target) -> tuple[str, ...]:
    """What is missing to run code for a CUDA target: nothing when some device can run its architecture."""
    if any(runs(target.level, capability) for capability in device_capabilities()):
        return ()
    return (f"an NVIDIA device that runs {target.level}, with its driver",)


def runs(architecture: str, capability: tuple[int, int]) -> bool:
    """Whether a device runs code for "sm_90": its own or an older one; "sm_90a" means exactly this one."""
    digits = architecture.removeprefix("sm_")
    wanted = int(digits.rstrip("a")[:-1]), int(digits.rstrip("a")[-1])
    return capability == wanted if digits.endswith("a") else capability >= wanted
