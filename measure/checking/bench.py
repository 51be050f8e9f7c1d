"""All that a timer keeps for one program: inputs and outputs, and who checks them.

On a CPU, inputs are read-only while kernels run, outputs are poisoned before each checked run, and each array touches a page
that ends the process when it is touched. What begins at a cache line is also what is timed; arrays of odd sizes, which
behind a guard page begin anywhere, have a second, aligned copy for the clock. On a device with memory of its own, inputs
are copied there once, and so is what outputs are poisoned with.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from ...runtime.devices.base import Device, LoadedKernel
from ...runtime.guard import guarded_array, make_read_only
from ...tensor.dtype import DType
from ...tensor.oracle.random_inputs import Magnitudes, random_inputs
from ...tensor.oracle.roundings import Array
from ...tensor.program import Program
from ...tensor.text.parse import parse
from .poison import poison
from .verify import Checker

NONE: Mapping[str, Array] = MappingProxyType({})
_LINE = 64


class Bench(Protocol):
    """Holds inputs and outputs of one program, and who checks them."""

    program: Program
    constants: list[Array]
    timed: list[Any]  # arguments for the clock: inputs, then outputs

    checker: Checker

    @property
    def bytes(self) -> int:
        """Says about how many bytes of memory this takes."""
        ...

    def checked_run(self, kernel: LoadedKernel) -> tuple[float, str | None]:
        """Runs a kernel once on poisoned outputs: (seconds of the run, what is wrong or None)."""
        ...


def bench_of(text: str, device: Device, seed: int, given: Mapping[str, Array] = NONE) -> Bench:
    """The bench of a program's text on a device; `seed` is that of inputs and checked points, `given` are inputs that are not
    drawn, by name. Errors: OutOfDeviceMemory."""
    return DeviceBench(text, device, seed, given) if device.own_memory else HostBench(text, device, seed, given)


def telling_inputs(program: Program, seed: int, given: Mapping[str, Array] = NONE) -> tuple[tuple[Array, ...], Checker]:
    """Random inputs, and who checks what comes of them: the first of several kinds of data on which zeros would not pass, if
    there is one, else the usual kind."""
    usual = None
    for sizes in Magnitudes:
        drawn = random_inputs(program, seed, sizes)
        values = tuple(given.get(i.tensor.name, array) for i, array in zip(program.inputs, drawn, strict=True))
        checker = Checker(program, values, seed)
        if not checker.remark:
            return values, checker
        usual = usual or (values, checker)
    assert usual is not None
    return usual


class DeviceBench:
    """A bench in a device's own memory."""

    def __init__(self, text: str, device: Device, seed: int, given: Mapping[str, Array] = NONE) -> None:
        self.program: Program = parse(text)
        values, self.checker = telling_inputs(self.program, seed, given)
        known = dict(zip((item.tensor.name for item in self.program.inputs), values, strict=True))
        self.constants = [known[tensor.name] for tensor in self.program.constant_inputs]
        inputs = [device.upload(known[tensor.name]) for tensor in self.program.dynamic_inputs]
        self._found: list[Array] = []
        for name in self.program.outputs:
            dtype = self.program.tensors[name].dtype
            self._found.append(np.empty(self.program.tensors[name].shape, dtype.numpy))
            poison(self._found[-1], dtype)
        self._poison = [device.upload(array) for array in self._found]
        self._outputs = [device.upload(array) for array in self._found]
        self.timed: list[Any] = [*inputs, *self._outputs]

    @property
    def bytes(self) -> int:
        """About how much memory of the device this takes."""
        return sum(array.nbytes for array in (*self.timed, *self._poison))

    def checked_run(self, kernel: LoadedKernel) -> tuple[float, str | None]:
        """Runs a kernel once and checks its outputs; see `Bench`."""
        for output, pattern in zip(self._outputs, self._poison, strict=True):
            output.copy_from(pattern)
        seconds = kernel.run_repeat(self.timed, 1)
        for output, found in zip(self._outputs, self._found, strict=True):
            output.download(found)
        return seconds, self.checker.check(self._found)


class HostBench:
    """A bench behind guard pages."""

    def __init__(self, text: str, device: Device, seed: int, given: Mapping[str, Array] = NONE) -> None:
        self.program: Program = parse(text)
        values, self.checker = telling_inputs(self.program, seed, given)
        known = {
            item.tensor.name: _guarded_copy(value) for item, value in zip(self.program.inputs, values, strict=True)
        }
        self.constants = [known[tensor.name] for tensor in self.program.constant_inputs]
        self._inputs = [known[tensor.name] for tensor in self.program.dynamic_inputs]
        self._dtypes: list[DType] = [self.program.tensors[name].dtype for name in self.program.outputs]
        self._outputs = [
            guarded_array(self.program.tensors[name].shape, dtype.numpy)
            for name, dtype in zip(self.program.outputs, self._dtypes, strict=True)
        ]
        self.timed: list[Any] = [_aligned(array, device) for array in (*self._inputs, *self._outputs)]

    @property
    def bytes(self) -> int:
        """Says about how many bytes of memory this takes."""
        arrays = (*self.constants, *self._inputs, *self._outputs)
        return 3 * sum(array.nbytes for array in arrays)  # the arrays, the oracle's inputs, the output that passed

    def checked_run(self, kernel: LoadedKernel) -> tuple[float, str | None]:
        """Runs a kernel once and checks its outputs; see `Bench`."""
        for array, dtype in zip(self._outputs, self._dtypes, strict=True):
            poison(array, dtype)
        seconds = kernel.run_repeat([*self._inputs, *self._outputs], 1)
        return seconds, self.checker.check(self._outputs)


def _guarded_copy(value: Array) -> Array:
    array = guarded_array(value.shape, value.dtype)
    array[...] = value
    make_read_only(array)
    return array


def _aligned(array: Array, device: Device) -> Array:
    if array.ctypes.data % _LINE == 0:
        return array
    copy: Array = device.empty(array.shape, array.dtype)
    copy[...] = array
    return copy
