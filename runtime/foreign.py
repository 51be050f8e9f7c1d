"""Arrays of other libraries on the host: taken without a copy, and given back as the caller's own kind.

What comes in says what goes out: torch tensors in, torch tensors out; so with every library whose arrays know DLPack and which
has a `from_dlpack`. bfloat16, which NumPy lacks, travels as such: inside it is carried as uint16 bit patterns (tensor.dtype).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..common.elements import NUMPY
from .devices.base import Array
from .dlpack import CPU, Borrowed, as_bfloat16, borrow_host

Give = Callable[[Array, str], object]  # an output and its dtype's name in programs -> what the caller gets

_BFLOAT16 = "bfloat16"  # NumPy's name of the dtype that ml_dtypes registers; other libraries' arrays of it follow


class _ForeignMemory:
    """Somebody's memory as NumPy takes it; NumPy keeps this object, and so the memory."""

    def __init__(self, found: Borrowed) -> None:
        dtype = np.dtype(np.uint16) if found.dtype == "bf16" else _numpy(found.dtype)
        strides = None if found.strides is None else tuple(step * dtype.itemsize for step in found.strides)
        self.owner = found.owner
        self.__array_interface__ = {
            "version": 3,
            "shape": found.shape,
            "typestr": dtype.str,
            "strides": strides,
            "data": (found.pointer, found.read_only),
        }


def _numpy(name: str) -> np.dtype[Any]:
    """Names are those of programs, and more of the same kind: u32, f128."""
    bits = name.lstrip("iuf")
    if name == "bool":
        return np.dtype(np.bool_)
    if not bits.isdecimal() or int(bits) % 8 or name == bits:
        raise TypeError(f"elements of kind {name}")
    return np.dtype(f"{name[0]}{int(bits) // 8}")


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Says whether a NumPy dtype is the bfloat16 of another package."""
    return dtype.kind == "V" and dtype.itemsize == 2 and dtype.name == _BFLOAT16


def taken(value: Any) -> tuple[Array, bool]:
    """An object with DLPack in host memory as an array on the same memory, and whether its uint16 are bfloat16.

    Raises what its `__dlpack__` raises; TypeError for a dtype that NumPy has not; BufferError for a tensor without memory, and
    for one of torch of which the signs are still to be changed: DLPack does not say so.
    """
    if is_negated(value):
        raise BufferError("a view whose numbers are negated when they are read")
    try:
        array = np.from_dlpack(value)  # as below, in a fifth of the time
        flags = array.flags
        if flags.writeable and not flags.owndata:  # memory of NumPy's own: it was given none
            return array, False
    except (
        BufferError,
        RuntimeError,
        TypeError,
    ):  # of bfloat16, which NumPy has not; what else is wrong is found again
        pass
    found = borrow_host(value)
    return np.asarray(_ForeignMemory(found)), found.dtype == "bf16"


def torch_here() -> Any:
    """Returns torch, if somebody has imported it, wholly; else None."""
    torch = sys.modules.get("torch")
    return torch if hasattr(getattr(torch, "nn", None), "Parameter") else None


def plain_tensors(torch: Any) -> tuple[type, ...]:
    """Returns the classes of torch's tensors that are memory and nothing else."""
    return torch.Tensor, torch.nn.Parameter


def torch_name(name: str) -> str:
    """Returns torch's name of a dtype of programs."""
    return _TORCH.get(name) or str(NUMPY[name])


def of_torch(value: Any) -> tuple[Array, bool] | None:
    """A tensor of torch in host memory, as `taken` gives it, in a fifth of the time. None for anything else, and for what torch
    refuses to give: DLPack finds out why."""
    torch = torch_here()
    if torch is None or type(value) not in plain_tensors(torch):
        return None
    bfloat16 = value.dtype is torch.bfloat16
    try:
        if value.requires_grad and not torch.is_grad_enabled():  # nobody asks for gradients of what is done now
            value = value.detach()
        return (value.view(torch.uint16) if bfloat16 else value).numpy(), bfloat16
    except (RuntimeError, TypeError):
        return None


def is_negated(value: Any) -> bool:
    """Says whether an array of torch is a view that negates what is in its memory."""
    asked = getattr(value, "is_neg", None)
    return asked is not None and bool(asked())


def giver(value: Any) -> Give | None:
    """Says how outputs are handed to somebody who came with `value`; None: as they are, NumPy arrays."""
    if isinstance(value, np.ndarray):
        return partial(_viewed, value.dtype) if is_bfloat16(value.dtype) else None
    if not hasattr(value, "__dlpack__"):
        return None
    if hasattr(value, "__array_namespace__"):
        importer = getattr(value.__array_namespace__(), "from_dlpack", None)
    else:
        found = (getattr(sys.modules.get(name), "from_dlpack", None) for name in _packages(value))
        importer = next(filter(None, found), None)
    return None if importer is None else partial(_imported, importer)


def made_like(value: Any, shape: tuple[int, ...], name: str) -> object:
    """An uninitialised torch tensor on the device of a torch tensor, for a dtype as programs name it; None for other arrays.

    For outputs on a GPU: there memory is torch's own business, which reuses it stream by stream.
    """
    if "torch" not in _packages(value):
        return None
    torch: Any = sys.modules["torch"]
    return torch.empty(shape, dtype=getattr(torch, torch_name(name)), device=value.device)


_TORCH = {"bf16": "bfloat16"}


def _packages(value: object) -> list[str]:
    """The packages that an object's class comes from, and then those that it extends."""
    return [kind.__module__.partition(".")[0] for kind in type(value).__mro__]


def _viewed(dtype: np.dtype[Any], array: Array, name: str) -> object:
    return array.view(dtype) if name == "bf16" else array


def _imported(importer: Callable[[Any], object], array: Array, name: str) -> object:
    return importer(_Bfloat16(array) if name == "bf16" else array)


class _Bfloat16:
    """uint16 bit patterns that say of themselves, to other libraries, that they are bfloat16."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> object:
        return as_bfloat16(self._array.__dlpack__(**options))

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0
