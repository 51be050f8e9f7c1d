"""Memory of results: what callers dropped serves the next call.

A step of training makes, and drops, what its backward pass reads, and the gradients: hundreds of megabytes. C's allocator gives
much of it back to the system, which clears and maps new pages at the next step: the forward pass of mobilenet_v2 (eight images
of 128x128, two cores of a Zen 4) takes 25 ms on memory that is kept, and up to 50 on new pages.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...common.forks import lock
from ...graph.importers.torch_export import torch_module
from ...runtime.devices.base import Array
from ...runtime.devices.cpu.memory import address, aligned_array
from ...runtime.devices.memory_pool import MemoryPool

_LARGE = 1 << 14  # bytes from which on new memory costs more than looking for what was used before
_STREAM = 0  # the host has one


class _Lent(weakref.ref[Array]):
    """Knows which block an array lies in."""

    __slots__ = ("place",)
    place: int


class _Guard:
    """A lock, and whether somebody is inside of what it guards: memory that comes back in the midst of it waits for its end."""

    __slots__ = ("_lock", "inside")

    def __init__(self) -> None:
        self._lock = lock()
        self.inside = False

    def __enter__(self) -> None:
        self._lock.__enter__()
        self.inside = True

    def __exit__(self, *error: object) -> None:
        self.inside = False
        self._lock.__exit__(None, None, None)


class ResultPool:
    """Blocks of memory that nobody holds, by size: of one call of each part of a graph at most, and no more, with all that is
    lent, than was lent at once before. What came back first is given to the system first."""

    def __init__(self) -> None:
        self._parts: weakref.WeakSet[ResultMemory] = weakref.WeakSet()
        self._other_parts = False  # than those whose bytes were added up
        self._guard = _Guard()
        self._blocks: dict[int, Array] = {}  # by address, as the next
        self._lent: dict[int, _Lent] = {}
        self._returned: deque[int] = deque()
        self._free = MemoryPool(0)
        self._lent_bytes, self._most_bytes, self._parts_bytes = 0, 0, 0

    @property
    def free_bytes(self) -> int:
        """Counts what is kept, and not lent."""
        return self._free.bytes

    def serve(self, part: ResultMemory) -> None:
        """Keeps what a call of this part makes, too, as long as there is the part."""
        self._parts.add(part)
        self._note_parts()
        weakref.finalize(part, self._note_parts).atexit = False

    def _note_parts(self) -> None:
        self._other_parts = True

    def lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialised array; its memory comes back as soon as nothing holds it."""
        size = _bytes(shape, dtype)
        if self._returned:
            self._settle()
        with self._guard:
            place = self._free.take(_STREAM, size)
            if place is None:
                new = aligned_array((size,), np.dtype(np.uint8))  # NumPy asks for large pages
                place = address(new)
                self._blocks[place] = new
                self._free.add(place, size)
            self._lent_bytes += size
            self._most_bytes = max(self._most_bytes, self._lent_bytes)
        array: Array = np.ndarray(shape, dtype, self._blocks[place])
        lent = self._lent[place] = _Lent(array, self._take_back)
        lent.place = place
        return array

    def _take_back(self, lent: _Lent) -> None:
        """Called wherever Python happens to be when an array ends."""
        del self._lent[lent.place]
        self._returned.append(lent.place)
        if not self._guard.inside:
            self._settle()

    def _settle(self) -> None:
        """Takes in what came back, and gives the system what is too much."""
        with self._guard:
            while self._returned:
                place = self._returned.popleft()
                self._lent_bytes -= self._blocks[place].nbytes
                self._free.give(place, _STREAM)
            if self._other_parts:
                self._other_parts = False  # first: another one may come, or go, while these are added up
                self._parts_bytes = sum(part.bytes for part in list(self._parts))
            self._free.most = min(self._most_bytes - self._lent_bytes, self._parts_bytes)
            for place in self._free.surplus():
                del self._blocks[place]


class ResultMemory:
    """Makes the results of a part of a graph.

    Args:
        results: shape and dtype of each, in torch's terms.
        pool: where memory of large ones is from.
    """

    def __init__(self, results: Sequence[tuple[tuple[int, ...], Any]], pool: ResultPool) -> None:
        self._torch = torch_module()
        self._pool = pool
        self._makers = [self._maker(shape, dtype) for shape, dtype in results]
        sizes = [_bytes(*one) for one in results]
        self.bytes: int = sum(size for size in sizes if size >= _LARGE)
        pool.serve(self)

    def tensors(self) -> list[Any]:
        """Uninitialised tensors, one for each result."""
        return [make() for make in self._makers]

    def _maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        """Returns what makes one of them, in the least time."""
        torch, lend = self._torch, self._pool.lend
        if _bytes(shape, dtype) < _LARGE:
            strides = torch.empty(shape, device="meta").stride()
            return partial(torch.empty_strided, shape, strides, dtype=dtype)  # `empty` takes twice as long
        seen = torch.int16 if dtype is torch.bfloat16 else dtype  # NumPy knows no bfloat16
        host = torch.empty(0, dtype=seen).numpy().dtype
        if dtype is seen:
            return lambda: torch.from_numpy(lend(shape, host))
        return lambda: torch.from_numpy(lend(shape, host)).view(dtype)


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    """Counts those of an array; a dtype of NumPy or of torch."""
    return prod(shape) * int(dtype.itemsize)


POOL = ResultPool()  # of all parts of all graphs
