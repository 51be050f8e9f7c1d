"""A loaded kernel that tells a profiler of others when each of its calls begins and ends."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...common.settings import RANGES
from ..devices.base import LoadedKernel

if TYPE_CHECKING:
    from ..devices.cpu.observed import ObservedKernel  # linking of code, which a saved kernel does without

_NOTE = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class RangeEmitter(Protocol):
    """A profiler of others: ranges with names, one inside of another, in the thread that calls."""

    def push(self, name: str) -> None:
        """Begins a range."""
        ...

    def pop(self) -> None:
        """Ends the range that was begun last."""
        ...


class RangedKernel:
    """Runs a kernel with a range around each of its calls. Some microseconds for each: Python is told of them."""

    def __init__(self, loaded: LoadedKernel, emitters: Sequence[RangeEmitter]) -> None:
        from ..devices.cpu.device import CpuKernel
        from ..devices.cpu.observed import ObservedKernel

        self._emitters = tuple(emitters)
        self._loaded = loaded
        self._name = loaded.artifact.name
        self._names = [one.name for one in loaded.artifact.kernels]
        self._observed: ObservedKernel | None = None
        if isinstance(loaded, CpuKernel) and self._names:
            self._notes = _NOTE(self._before), _NOTE(self._after)
            before, after = (ctypes.cast(note, ctypes.c_void_p).value or 0 for note in self._notes)
            self._observed = ObservedKernel(loaded, before, after)

    def _before(self, number: int) -> None:
        for one in self._emitters:
            one.push(self._names[number])

    def _after(self, _number: int) -> None:
        for one in self._emitters:
            one.pop()

    def run(self, arrays: Sequence[Any], *stream: Any) -> None:
        """Works as `LoadedKernel.run`."""
        for one in self._emitters:
            one.push(self._name)
        try:
            if self._observed is not None:
                self._observed.run(arrays)
            else:
                self._loaded.run(arrays, *stream)
        finally:
            self._after(0)

    def run_if_right(self, *_objects: object) -> bool:
        """Leaves it to the caller to look at the objects."""
        return False


def ranged_by_setting(loaded: LoadedKernel) -> RangedKernel | None:
    """Returns what tells the profilers that the setting RANGES names, if any. Errors: EnvironmentFailure."""
    names = RANGES.value()
    return RangedKernel(loaded, [EMITTERS[name]() for name in names]) if names else None


def _nvtx() -> RangeEmitter:
    from .nvtx import NvtxRanges

    return NvtxRanges()


def _itt() -> RangeEmitter:
    from .itt import IttRanges

    return IttRanges()


EMITTERS: dict[str, Callable[[], RangeEmitter]] = {"nvtx": _nvtx, "itt": _itt}
