"""Reading a DLPack capsule: what NumPy cannot do for arrays that are not in host memory, and for bfloat16.

Layout of the structures: dlpack.h, versions 0.8 (capsules named "dltensor") and 1.0 ("dltensor_versioned", which say whether
the memory may be written), https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CPU, CUDA = 1, 2  # kinds of devices
LEGACY = 1  # CUDA's default stream, as __dlpack__ is told
_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "bool"}
_BFLOAT = 4
_READ_ONLY = 1  # of the flags


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


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Somebody else's array on a device: where it is, and what keeps it there.

    `dtype` is a name as programs have it, `strides` count elements (None: in row-major order without gaps).
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    contiguous: bool
    device_kind: int
    device_number: int
    owner: Any
    strides: tuple[int, ...] | None = None
    read_only: bool = False


def borrow(value: Any, stream: int = LEGACY) -> Borrowed:
    """The array behind an object with __dlpack__, as it is for what comes next on a stream of its device (a handle of CUDA, 1
    for the default one): its producer sees to it that what was asked for before is done by then. -1: it need not.

    The object itself is kept, so its memory stays; the capsule frees only what describes it. Raises what `__dlpack__` raises,
    and BufferError for an array without memory.
    """
    kind = int(value.__dlpack_device__()[0])
    capsule = value.__dlpack__(stream=stream) if kind == CUDA else value.__dlpack__()
    return _described(_tensor(capsule), (value, capsule), False)


def borrow_host(value: Any) -> Borrowed:
    """Works as `borrow`, for an object in host memory; `read_only` is told where its library tells it."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library from before version 1.0
        capsule = value.__dlpack__()
    read_only = _is_versioned(capsule) and bool(_versioned(capsule).flags & _READ_ONLY)
    return _described(_tensor(capsule), (value, capsule), read_only)


def as_bfloat16(capsule: Any) -> Any:
    """A capsule of uint16, now of bfloat16 with these bits."""
    _tensor(capsule).code = _BFLOAT
    return capsule


def _described(tensor: _Tensor, owner: Any, read_only: bool) -> Borrowed:
    rank = tensor.dimensions
    shape = tuple(tensor.shape[:rank])
    strides = tuple(tensor.strides[:rank]) if tensor.strides else None
    if not tensor.data and all(shape):
        raise BufferError("there is no memory behind it")
    name = _CODES.get(tensor.code, "?")
    return Borrowed(
        pointer=(tensor.data or 0) + tensor.offset,
        shape=shape,
        dtype=name if name == "bool" else f"{name}{tensor.bits}",
        contiguous=strides is None or _row_major(shape, strides),
        device_kind=tensor.device_kind,
        device_number=tensor.device_number,
        owner=owner,
        strides=strides,
        read_only=read_only,
    )


def _row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


def _tensor(capsule: Any) -> _Tensor:
    """Returns what a capsule describes, in its own memory: as long as the capsule."""
    if _is_versioned(capsule):
        return _versioned(capsule).tensor  # type: ignore[no-any-return]
    return ctypes.cast(_pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents


def _versioned(capsule: Any) -> _Versioned:
    return ctypes.cast(_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(_Versioned)).contents


def _is_versioned(capsule: Any) -> bool:
    return bool(_is_valid(capsule, b"dltensor_versioned"))


def _function(name: str, result: Any) -> Callable[[Any, bytes], Any]:
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, [ctypes.py_object, ctypes.c_char_p]
    return function  # type: ignore[no-any-return]


_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p)
_is_valid = _function("PyCapsule_IsValid", ctypes.c_int)
