"""The short way into a kernel for tensors of torch: each is looked at in half a microsecond, and its address is taken.

As arrays of NumPy, which the long way makes of them, they take 3 to 5 us each; a step of training has hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arguments import INPUT, Argument, shared_output
from .devices.base import LoadedKernel
from .foreign import plain_tensors, torch_here, torch_name
from .ranges.torch_profiler import is_profiling

_Wanted = tuple[Any, tuple[int, ...], int]  # torch's dtype, None where it has none; the shape; the bytes of an element


class TensorCall:
    """Calls of a kernel with tensors of torch in host memory.

    Args:
        loaded: what to run.
        inputs, outputs: what it takes.
    """

    def __init__(self, loaded: LoadedKernel, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> None:
        self._loaded = loaded
        self._arguments = (*inputs, *outputs)
        self._sizes = [one.spec.elements * one.dtype.itemsize for one in self._arguments]
        self._numbers = [INPUT] * len(inputs) + list(range(len(outputs)))
        self._torch: Any = None
        self._kinds: tuple[type, ...] = ()
        self._wanted: list[_Wanted] = []

    def run_if_right(self, *objects: object) -> bool:
        """Runs once if all objects (inputs, then outputs, as many as the kernel has) are contiguous tensors as it wants them,
        no output shares memory with another, and nobody asks for gradients. False if not: then nothing has run, and the long
        way finds out why."""
        if self._torch is None and not self._learn():
            return False
        addresses = self._addresses(objects)
        if addresses is None or is_profiling():  # profilers are told by the long way
            return False
        if shared_output(zip(addresses, self._sizes, self._numbers, strict=True)) is not None:
            return False
        self._loaded.run_at(addresses)
        return True

    def _addresses(self, objects: Sequence[Any]) -> list[int] | None:
        """Says where they lie; None where one is not as wanted."""
        kinds, grows = self._kinds, self._torch.is_grad_enabled()
        found = []
        for tensor, (dtype, shape, aligned) in zip(objects, self._wanted, strict=True):
            if (
                type(tensor) not in kinds
                or tensor.dtype is not dtype
                or tensor.shape != shape
                or not tensor.is_contiguous()
                or not tensor.is_cpu
                or tensor.is_neg()
                or (grows and tensor.requires_grad)
            ):
                return None
            try:
                place = tensor.data_ptr()
            except RuntimeError:  # of sparse ones, and of what stands for one while torch transforms a function
                return None
            if place % aligned or (tensor.numel() and not place):
                return None
            found.append(place)
        return found

    def _learn(self) -> bool:
        """Looks at torch, if somebody has imported it."""
        torch = torch_here()
        if torch is None:
            return False
        self._wanted = [
            (getattr(torch, torch_name(one.spec.dtype), None), one.spec.shape, one.dtype.itemsize)
            for one in self._arguments
        ]
        self._kinds = plain_tensors(torch)
        self._torch = torch
        return True
