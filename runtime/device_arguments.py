"""Arguments of kernels on a device with memory of its own.

Accepted: arrays of the device (DeviceArray), arrays of other libraries that lie on it (DLPack, __cuda_array_interface__; no
copy), and arrays in host memory, which are copied there and, for outputs, back. All is ordered before what comes next on the
stream of the call (streams.py), and the host waits for nothing but copies back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.errors import ArgumentError
from .arguments import Argument, MemorySpan, accept
from .devices.base import Array, Device
from .devices.gpu import DeviceArray
from .dlpack import CUDA, LEGACY, borrow
from .streams import current_stream, handle_of

ALIGNMENT = 16  # of every argument, for accesses of 128 bits


@dataclass(slots=True)
class Placed:
    """An argument on the device; `home` is the host array that an output is copied to, `owner` keeps the memory.

    lent: the owner's library may give the memory to somebody else as soon as nobody holds the owner, on a stream of its own.
    """

    pointer: int
    nbytes: int
    home: Array | None = None
    owner: Any = None
    lent: bool = False

    @property
    def span(self) -> MemorySpan:
        """Says where it lies, as `check_apart` wants it."""
        return self.pointer, self.nbytes


def place(value: object, wanted: Argument, device: Any, stream: int = 0, output: bool = False) -> Placed:
    """An argument on the device (one with memory of its own), for work on a stream; see the head of this file.

    Raises ArgumentError for another device, shape, dtype, memory order or alignment, or something that is no array.
    """
    if isinstance(value, DeviceArray):
        if value.port is not getattr(device, "port", None):
            raise _elsewhere(wanted, device, f"one on {value.device}")
        _check(wanted, value.shape, value.dtype.name, wanted.dtype.name, True, value.pointer)
        value.use_on(stream)
        return Placed(value.pointer, value.nbytes, owner=value)
    if not isinstance(value, np.ndarray) and (found := _on_cuda(value, wanted, device, stream)) is not None:
        return found
    array = accept(value, wanted, writable=output)
    if stream and device.port.capturing(stream):
        raise ArgumentError(
            f"{wanted.label} is in host memory, and the stream is captured into a graph",
            expected=f"an array on {device.name}",
            advice="copy it there before the capture begins, and keep it for as long as the graph",
        )
    there = device.empty(array.shape, array.dtype, stream) if output else device.upload(array, stream)
    return Placed(there.pointer, there.nbytes, home=array if output else None, owner=there)


def empty(device: Any, wanted: Argument, stream: int) -> DeviceArray:
    """A new array for an output of a call on a stream."""
    made: DeviceArray = device.empty(wanted.spec.shape, wanted.dtype, stream)
    return made


def hold(device: Any, placed: Sequence[Placed], stream: int) -> None:
    """Keeps what other libraries have lent until the device has done with it."""
    owners = [one.owner for one in placed if one.lent]
    if owners:
        device.port.hold(owners, stream)


def is_host(value: Any) -> bool:
    """Says whether an argument is in host memory."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, DeviceArray) or not hasattr(value, "__dlpack_device__"):
        return not (isinstance(value, DeviceArray) or hasattr(value, "__cuda_array_interface__"))
    return int(value.__dlpack_device__()[0]) != CUDA


def _on_cuda(value: Any, wanted: Argument, device: Any, stream: int) -> Placed | None:
    """Another library's array on a CUDA device; None for anything else."""
    number = int(device.name.partition(":")[2]) if device.name.partition(":")[2].isdecimal() else None
    if hasattr(value, "__dlpack_device__"):
        kind, where = (int(part) for part in value.__dlpack_device__())
        if kind != CUDA:
            return None
        if where != number:
            raise _elsewhere(wanted, device, f"one on cuda:{where}")
        theirs = current_stream(value) == stream  # then nobody has to wait
        try:
            found = borrow(value, -1 if theirs else stream or LEGACY)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(f"{wanted.label} cannot be shared through DLPack", found=str(error)) from error
        _check(wanted, found.shape, found.dtype, wanted.spec.dtype, found.contiguous, found.pointer)
        size = wanted.spec.elements * wanted.dtype.itemsize
        return Placed(found.pointer, size, owner=found.owner, lent=not theirs)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        return None
    if number is None:
        raise _elsewhere(wanted, device, "one on a CUDA device")
    dtype, strides = np.dtype(interface["typestr"]), interface.get("strides")
    _check(wanted, tuple(interface["shape"]), dtype.name, wanted.dtype.name, strides is None, interface["data"][0])
    before = interface.get("stream")  # None: nothing is under way
    if before is not None and handle_of(before) != stream:
        device.port.order(stream, handle_of(before))
    return Placed(interface["data"][0], wanted.spec.elements * dtype.itemsize, owner=value, lent=True)


def _elsewhere(wanted: Argument, device: Device, found: str) -> ArgumentError:
    return ArgumentError(
        f"{wanted.label} is on another device",
        expected=f"an array on {device.name}, or in host memory",
        found=found,
        advice="copy it there first",
    )


def _check(wanted: Argument, shape: tuple[int, ...], found: str, dtype: str, contiguous: bool, pointer: int) -> None:
    if shape != wanted.spec.shape:
        raise ArgumentError(
            f"{wanted.label} has the wrong shape",
            expected=wanted.wanted,
            found=f"shape {list(shape)}",
            advice="the kernel is compiled for this shape; compile the program for the other one",
        )
    if found != dtype:
        raise ArgumentError(f"{wanted.label} has the wrong dtype", expected=dtype, found=found)
    if not contiguous:
        raise ArgumentError(
            f"{wanted.label} is not contiguous in row-major order", advice="pass a contiguous copy of it"
        )
    if pointer % ALIGNMENT:
        raise ArgumentError(
            f"{wanted.label} does not begin at a multiple of {ALIGNMENT} bytes",
            expected=f"an address that is a multiple of {ALIGNMENT}",
            found=hex(pointer),
            advice="pass a copy of it: a slice of an array begins anywhere",
        )
