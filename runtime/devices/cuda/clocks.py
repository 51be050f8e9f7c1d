"""The clocks of a GPU, observed and never changed: asked of NVML, which comes with the driver."""

from __future__ import annotations

import ctypes
from functools import cache

_GRAPHICS, _MEMORY = 0, 2  # NVML_CLOCK_GRAPHICS, NVML_CLOCK_MEM


def clocks(bus: str) -> str:
    """The clocks now of the device at a PCI bus id, for people: "sm 1980 MHz, memory 3201 MHz"; "" where nobody tells."""
    library = _library()
    handle = ctypes.c_void_p()
    if library is None or library.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(), ctypes.byref(handle)):
        return ""
    found = []
    for name, number in (("sm", _GRAPHICS), ("memory", _MEMORY)):
        value = ctypes.c_uint()
        if library.nvmlDeviceGetClockInfo(handle, number, ctypes.byref(value)) == 0:
            found.append(f"{name} {value.value} MHz")
    return ", ".join(found)


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library
