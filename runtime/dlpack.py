"""Reading a DLPack capsule: what NumPy cannot do for arrays that are not in host memory.

Layout of the structures: dlpack.h, version 0.8 (capsules named "dltensor"), https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CPU, CUDA = 1, 2  # kinds of devices
_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Somebody else's array on a device: where it is, and what keeps it there. `dtype` is a name as programs have it."""

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    contiguous: bool
    device_kind: int
    device_number: int
    owner: Any


def borrow(value: Any) -> Borrowed:
    """The array behind an object with __dlpack__, as it is once all that was asked for before is done.

    The object itself is kept, so its memory stays; the capsule frees only what describes it. Raises what `__dlpack__` raises.
    """
    kind = int(value.__dlpack_device__()[0])
    capsule = value.__dlpack__(stream=1) if kind == CUDA else value.__dlpack__()  # 1: the legacy default stream
    tensor = ctypes.cast(_pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    rank = tensor.dimensions
    shape = tuple(tensor.shape[n] for n in range(rank))
    strides = tuple(tensor.strides[n] for n in range(rank)) if tensor.strides else None
    name = _CODES.get(tensor.code, "?")
    return Borrowed(
        pointer=(tensor.data or 0) + tensor.offset,
        shape=shape,
        dtype=name if name == "bool" else f"{name}{tensor.bits}",
        contiguous=strides is None or _row_major(shape, strides),
        device_kind=tensor.device_kind,
        device_number=tensor.device_number,
        owner=(value, capsule),
    )


def _row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


def _api() -> Callable[[Any, bytes], int]:
    function = ctypes.pythonapi.PyCapsule_GetPointer
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return function


_pointer = _api()
