"""All that a timer keeps for one program: inputs and outputs behind guard pages, and who checks them.

Inputs are read-only while kernels run, outputs are poisoned before each checked run, and each array touches a page that
ends the process when it is touched. What begins at a cache line is also what is timed; arrays of odd sizes, which behind
a guard page begin anywhere, have a second, aligned copy for the clock.
"""

from __future__ import annotations

from ..runtime.devices.base import Device, LoadedKernel
from ..runtime.guard import guarded_array, make_read_only
from ..tensor.dtype import DType
from ..tensor.evaluate import Array
from ..tensor.program import Program
from ..tensor.random import random_inputs
from ..tensor.text import parse
from .poison import poison
from .verify import Checker

SEED = 20  # of inputs and checked points; fixed, so that a failure can be seen again
_LINE = 64


class Bench:
    """See the head of this file.

    Args:
        text: the program's text.
        device: where its arrays live.
    """

    def __init__(self, text: str, device: Device) -> None:
        self.program: Program = parse(text)
        values = random_inputs(self.program, SEED)
        self._checker = Checker(self.program, values, SEED)
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
        self.timed = [_aligned(array, device) for array in (*self._inputs, *self._outputs)]

    @property
    def bytes(self) -> int:
        """About how much memory this takes."""
        arrays = (*self.constants, *self._inputs, *self._outputs)
        return 3 * sum(array.nbytes for array in arrays)  # the arrays, the oracle's inputs, the output that passed

    def checked_run(self, kernel: LoadedKernel) -> tuple[float, str | None]:
        """Runs a kernel once on poisoned outputs: (seconds of the run, what is wrong or None)."""
        for array, dtype in zip(self._outputs, self._dtypes, strict=True):
            poison(array, dtype)
        seconds = kernel.run_repeat([*self._inputs, *self._outputs], 1)
        return seconds, self._checker.check(self._outputs)


def _guarded_copy(value: Array) -> Array:
    array = guarded_array(value.shape, value.dtype)
    array[...] = value
    make_read_only(array)
    return array


def _aligned(array: Array, device: Device) -> Array:
    if array.ctypes.data % _LINE == 0:
        return array
    copy = device.empty(array.shape, array.dtype)
    copy[...] = array
    return copy
