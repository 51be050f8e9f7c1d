"""Arrays that callers hand to kernels: what is accepted, and the errors for what is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..codegen.artifact import BufferSpec
from ..common.elements import NUMPY
from ..common.errors import ArgumentError, InternalError
from .devices.base import Array
from .devices.cpu.memory import address
from .dlpack import CPU
from .foreign import Give, is_bfloat16, is_negated, of_torch, taken

MemorySpan = tuple[int, int]  # an address, and the bytes from there on
INPUT = -1  # in place of the number of an output
_DEVICES = {1: "the CPU", 2: "a CUDA device", 3: "pinned CUDA memory", 10: "a ROCm device", 13: "managed CUDA memory"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One operand of a kernel: what is expected of it. `role` is "argument 1", "constant 0", "out"."""

    role: str
    spec: BufferSpec
    dtype: np.dtype[Any]

    @property
    def label(self) -> str:
        """Says how errors name it."""
        return f"{self.role} ({self.spec.name})"

    @property
    def wanted(self) -> str:
        """dtype and shape in the notation of programs."""
        return f"{self.spec.dtype}{list(self.spec.shape)}"


def argument(role: str, spec: BufferSpec) -> Argument:
    """The operand that `spec` describes. InternalError for one that lies in rows: so kernels inside of a model have them."""
    if spec.rows is not None:
        raise InternalError(f"{role} lies in rows", expected="elements side by side", found=str(spec.rows))
    return Argument(role, spec, NUMPY[spec.dtype])


def counted(out: object, wanted: Sequence[Argument]) -> Sequence[object]:
    """The arrays of `out=`, one for each output. Errors: ArgumentError."""
    values = out if isinstance(out, tuple | list) else (out,)
    if len(values) != len(wanted):
        raise ArgumentError("a wrong number of arrays in out=", expected=str(len(wanted)), found=str(len(values)))
    return values


def check_apart(inputs: Sequence[MemorySpan], outputs: Sequence[MemorySpan], wanted: Sequence[Argument]) -> None:
    """Raises ArgumentError where an output shares memory with another argument. Inputs may share theirs."""
    number = shared_output([*((*span, INPUT) for span in inputs), *((*span, n) for n, span in enumerate(outputs))])
    if number is not None:
        raise ArgumentError(
            f"{wanted[number].label} shares memory with another argument",
            advice="pass an array of its own; kernels may write an output before they have read all inputs",
        )


def shared_output(spans: Iterable[tuple[int, int, int]]) -> int | None:
    """Returns the number of an output of which a byte is another argument's, too. `spans`: address, bytes, and the number of an
    output or INPUT.

    A step of training has hundreds of both: they are sorted by where they begin, not held against each other.
    """
    read, written, last = 0, 0, -1  # where what is read, and what is written, ends so far; the output that ends last
    for begin, size, number in sorted(spans):
        if begin < written:
            return max(number, last)
        if number >= 0 and begin < read:
            return number
        if number < 0:
            read = max(read, begin + size)
        else:
            written, last = begin + size, number
    return None


def span_of(array: Array) -> MemorySpan:
    """Says where a contiguous array lies."""
    return address(array), array.nbytes


def given_back(outputs: Sequence[Any], wanted: Sequence[Argument], give: Give | None) -> Any:
    """Outputs that the kernel made, as the caller gets them."""
    if give is not None:
        outputs = [give(array, one.spec.dtype) for array, one in zip(outputs, wanted, strict=True)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def accept(value: object, wanted: Argument, writable: bool = False) -> Array:
    """`value` as an array, without a copy: NumPy arrays and whatever has __dlpack__ or __array_interface__ on the CPU.

    bfloat16, of another library or as a NumPy dtype of another package (ml_dtypes), becomes uint16 bit patterns.

    Raises ArgumentError for another kind of object, device, shape, dtype, memory order, for a masked array, or (with
    `writable`) for read-only memory.
    """
    array, bfloat16 = (value, False) if type(value) is np.ndarray else (of_torch(value) or _seen(value, wanted))
    if is_bfloat16(array.dtype):
        array, bfloat16 = array.view(np.uint16), True
    if array.shape != wanted.spec.shape:
        raise ArgumentError(
            f"{wanted.label} has the wrong shape",
            expected=wanted.wanted,
            found=f"shape {list(array.shape)}",
            advice="the kernel is compiled for this shape; compile the program for the other one",
        )
    if array.dtype != wanted.dtype or (bfloat16 and wanted.spec.dtype != "bf16"):
        raise _wrong_dtype(value, "bf16" if bfloat16 else str(array.dtype), wanted)
    if not array.flags.c_contiguous:
        raise ArgumentError(
            f"{wanted.label} is not contiguous in row-major order",
            expected="a C-contiguous array",
            found=f"strides {array.strides} for shape {list(array.shape)}",
            advice="pass tensor.contiguous()"
            if hasattr(value, "contiguous")
            else "pass numpy.ascontiguousarray(array)",
        )
    if not array.flags.aligned:
        raise ArgumentError(
            f"{wanted.label} lies between the addresses of its elements",
            expected=f"an array that begins at a multiple of {array.dtype.alignment} bytes",
            found=f"one that begins at {array.ctypes.data:#x}",
            advice=f"pass a copy: {'tensor.clone()' if hasattr(value, 'clone') else 'array.copy()'}",
        )
    if writable and (isinstance(value, np.generic) or not array.flags.writeable):  # a NumPy scalar is always copied
        raise ArgumentError(f"{wanted.label} is read-only", advice="pass an array that may be written")
    return array


def _seen(value: object, wanted: Argument) -> tuple[Array, bool]:
    """An object of any library as an array on the same memory, and whether its uint16 are bfloat16."""
    if _is_masked(value):
        raise ArgumentError(
            f"{wanted.label} is a masked array, and kernels know no masks",
            expected="an array of which every element counts",
            found=type(value).__name__,
            advice="pass array.filled(value), with what stands in for masked elements, or array.data to have them count",
        )
    return (value, False) if isinstance(value, np.ndarray) else _borrowed(value, wanted)


def _is_masked(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return isinstance(value, np.ma.MaskedArray)
    return getattr(value, "__array_interface__", None) is not None and "mask" in value.__array_interface__


def _wrong_dtype(value: object, found: str, wanted: Argument) -> ArgumentError:
    if wanted.spec.dtype == "bf16":
        expected = "bf16: a torch tensor, an array of ml_dtypes.bfloat16, or bit patterns as uint16"
        return ArgumentError(f"{wanted.label} has the wrong dtype", expected=expected, found=found)
    library = type(value).__module__.partition(".")[0]
    convert = "astype" if hasattr(value, "astype") else "to"
    return ArgumentError(
        f"{wanted.label} has the wrong dtype",
        expected=str(wanted.dtype),
        found=found,
        advice=f"pass it with .{convert}({library}.{wanted.dtype})",
    )


def _how_to_share(value: Any) -> str:
    if getattr(value, "requires_grad", False):
        return "kernels know no gradients: pass tensor.detach()"
    return "pass tensor.resolve_neg()" if is_negated(value) else ""


def _borrowed(value: object, wanted: Argument) -> tuple[Array, bool]:
    """An object of another library as an array on the same memory, and whether its uint16 are bfloat16."""
    if hasattr(value, "__dlpack__"):
        try:
            device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else CPU
        except (BufferError, RuntimeError, TypeError, ValueError) as error:  # torch's "meta": there is no memory at all
            raise ArgumentError(
                f"{wanted.label} is not in the memory of the CPU", expected="an array on the CPU", found=str(error)
            ) from error
        if int(device) != CPU:
            raise ArgumentError(
                f"{wanted.label} is not in the memory of the CPU",
                expected="an array on the CPU",
                found=f"one on {_DEVICES.get(int(device), f'a device of DLPack kind {int(device)}')}",
                advice="copy it to the CPU first",
            )
        try:
            return taken(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"{wanted.label} cannot be shared through DLPack",
                expected=wanted.wanted,
                found=str(error),
                advice=_how_to_share(value),
            ) from error
    if hasattr(value, "__array_interface__"):
        return np.asarray(value), False
    raise ArgumentError(
        f"{wanted.label} is no array",
        expected=f"{wanted.wanted} as a NumPy array or an object with __dlpack__",
        found=type(value).__name__,
    )
