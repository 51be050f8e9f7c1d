"""Calls of a kernel on a device with memory of its own. What runs on processors alone never imports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .arguments import Argument, check_apart, counted, given_back
from .device_arguments import empty, hold, is_host, place
from .devices.base import Device
from .foreign import giver, made_like
from .streams import launch_stream


class DeviceCalls:
    """The calls of one kernel.

    Args:
        device: where the kernel is.
        inputs, outputs: what it takes and gives.
        run: `LoadedKernel.run`, or what stands before it.
    """

    def __init__(
        self, device: Device, inputs: Sequence[Argument], outputs: Sequence[Argument], run: Callable[..., None]
    ) -> None:
        self._device = device
        self._inputs, self._outputs = inputs, outputs
        self._run = run

    def call(self, inputs: Sequence[object], out: object, given: object) -> Any:
        """Runs the kernel once: `Kernel.__call__` tells the arguments and the errors."""
        out = self._made_like(inputs) if out is None else out
        values = () if out is None else counted(out, self._outputs)
        stream, device = launch_stream(given, (*inputs, *values)), self._device
        placed = [place(value, wanted, device, stream) for value, wanted in zip(inputs, self._inputs, strict=True)]
        if out is None:
            made: list[Any] = [empty(device, wanted, stream) for wanted in self._outputs]
            self._run([*placed, *made], stream)
            hold(device, placed, stream)
            if all(is_host(value) for value in inputs):
                give = next(filter(None, map(giver, inputs)), None)
                return given_back([array.numpy() for array in made], self._outputs, give)
            return given_back(made, self._outputs, None)
        outputs = [
            place(value, wanted, device, stream, output=True)
            for value, wanted in zip(values, self._outputs, strict=True)
        ]
        check_apart([one.span for one in placed], [one.span for one in outputs], self._outputs)
        self._run([*placed, *outputs], stream)
        hold(device, [*placed, *outputs], stream)
        for output in outputs:
            if output.home is not None:
                output.owner.download(output.home)
        return out

    def placed(self, inputs: Sequence[object]) -> list[Any]:
        """Returns the inputs on the device, then uninitialised outputs there: arrays for `LoadedKernel.run`."""
        placed = [place(value, wanted, self._device) for value, wanted in zip(inputs, self._inputs, strict=True)]
        return [*placed, *(empty(self._device, wanted, 0) for wanted in self._outputs)]

    def _made_like(self, inputs: Sequence[object]) -> Any:
        """Outputs on the device of the caller's library, for `out`; None where the device makes them."""
        for value in inputs:
            if not is_host(value):
                made = [made_like(value, wanted.spec.shape, wanted.spec.dtype) for wanted in self._outputs]
                if made[0] is not None:
                    return made[0] if len(made) == 1 else tuple(made)
        return None
