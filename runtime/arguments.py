"""Arrays that callers hand to kernels: what is accepted, and the errors for what is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..codegen.artifact import BufferSpec
from ..common.errors import ArgumentError
from ..tensor.dtype import DTYPES
from .devices.base import Array

_CPU = 1  # kDLCPU of DLPack
_DEVICES = {1: "the CPU", 2: "a CUDA device", 3: "pinned CUDA memory", 10: "a ROCm device", 13: "managed CUDA memory"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One operand of a kernel: what is expected of it. `role` is "argument 1", "constant 0", "out"."""

    role: str
    spec: BufferSpec
    dtype: np.dtype[Any]

    @property
    def label(self) -> str:
        """How errors name it."""
        return f"{self.role} ({self.spec.name})"

    @property
    def wanted(self) -> str:
        """dtype and shape in the notation of programs."""
        return f"{self.spec.dtype}{list(self.spec.shape)}"


def argument(role: str, spec: BufferSpec) -> Argument:
    """The operand that `spec` describes."""
    return Argument(role, spec, DTYPES[spec.dtype].numpy)


def accept(value: object, wanted: Argument, writable: bool = False) -> Array:
    """`value` as an array, without a copy: NumPy arrays and whatever has __dlpack__ or __array_interface__ on the CPU.

    Raises ArgumentError for another kind of object, device, shape, dtype, memory order, or (with `writable`) read-only memory.
    """
    array = value if isinstance(value, np.ndarray) else _borrowed(value, wanted)
    if array.shape != wanted.spec.shape:
        raise ArgumentError(
            f"{wanted.label} has the wrong shape",
            expected=wanted.wanted,
            found=f"shape {list(array.shape)}",
            advice="the kernel is compiled for this shape; compile the program for the other one",
        )
    if array.dtype != wanted.dtype:
        carried = " (bf16 is passed as uint16 bit patterns)" if wanted.spec.dtype == "bf16" else ""
        raise ArgumentError(
            f"{wanted.label} has the wrong dtype",
            expected=f"{wanted.dtype}{carried}",
            found=str(array.dtype),
            advice=f"pass it with .astype(numpy.{wanted.dtype})" if not carried else "",
        )
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ArgumentError(
            f"{wanted.label} is not contiguous in row-major order",
            expected="a C-contiguous, aligned array",
            found=f"strides {array.strides} for shape {list(array.shape)}",
            advice="pass numpy.ascontiguousarray(array)",
        )
    if writable and (isinstance(value, np.generic) or not array.flags.writeable):  # a NumPy scalar is always copied
        raise ArgumentError(f"{wanted.label} is read-only", advice="pass an array that may be written")
    return array


def _borrowed(value: object, wanted: Argument) -> Array:
    """An object of another library as an array on the same memory."""
    if hasattr(value, "__dlpack__"):
        try:
            device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else _CPU
        except (BufferError, RuntimeError, TypeError, ValueError) as error:  # torch's "meta": there is no memory at all
            raise ArgumentError(
                f"{wanted.label} is not in the memory of the CPU", expected="an array on the CPU", found=str(error)
            ) from error
        if int(device) != _CPU:
            raise ArgumentError(
                f"{wanted.label} is not in the memory of the CPU",
                expected="an array on the CPU",
                found=f"one on {_DEVICES.get(int(device), f'a device of DLPack kind {int(device)}')}",
                advice="copy it to the CPU first",
            )
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"{wanted.label} cannot be shared through DLPack",
                expected=wanted.wanted,
                found=str(error),
                advice="a torch tensor that needs a gradient: pass tensor.detach(); a bf16 tensor: tensor.view(torch.uint16)",
            ) from error
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    raise ArgumentError(
        f"{wanted.label} is no array",
        expected=f"{wanted.wanted} as a NumPy array or an object with __dlpack__",
        found=type(value).__name__,
    )
