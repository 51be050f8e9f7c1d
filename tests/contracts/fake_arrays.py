"""Arrays of other libraries on a CUDA device, as kernels meet them; their memory is a DeviceArray's."""

from __future__ import annotations

import ctypes
from types import ModuleType, SimpleNamespace
from typing import Any

from tilesmith.runtime.devices.gpu import DeviceArray


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_kind", ctypes.c_int32), ("device_number", ctypes.c_int32),
        ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class Exported:
    """An f32 array of a library that speaks DLPack; `asked` are the streams that it was told."""

    is_cuda = True
    device = "cuda:0"

    def __init__(self, array: DeviceArray) -> None:
        self.array = array
        self.asked: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.asked.append(stream)
        shape = (ctypes.c_int64 * len(self.array.shape))(*self.array.shape)
        self.kept = _Tensor(self.array.pointer, 2, 0, len(shape), 2, 32, 1, shape, None, 0), shape
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.kept[0]), b"dltensor", None)


class Interfaced:
    """An array of a library that has only __cuda_array_interface__."""

    def __init__(self, array: DeviceArray, stream: int | None) -> None:
        pointer = (array.pointer, False)
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": "<f4", "data": pointer, "version": 3, "stream": stream,
        }  # fmt: skip


def torch_on(stream: int) -> ModuleType:
    """A module as torch, whose tensors are `Exported` and whose current stream is this one."""
    torch: Any = ModuleType("torch")
    torch.Tensor = Exported
    torch.cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=stream))
    return torch  # type: ignore[no-any-return]
