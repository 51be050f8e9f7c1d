"""Memory of results: what callers dropped serves the next call.

A step of training makes, and drops, what its backward pass reads, and the gradients: hundreds of megabytes. C's allocator gives
much of it back to the system, which clears and maps new pages at the next step: the forward pass of mobilenet_v2 (eight images
of 128x128, two cores of a Zen 4) takes 25 ms on memory that is kept, and up to 50 on new pages.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


class ResultPool:
    """Blocks of memory that nobody holds, by size: of one call of each part of a graph at most, and no more, with all that is
    lent, than was lent at once before. What came back first is given to the system first.

    Attributes:
        parts: the parts of graphs that results are made for.
    """

    def __init__(self) -> None:
        self.parts: weakref.WeakSet[ResultMemory] = weakref.WeakSet()
        self._lock = lock()
        self._inside = False  # of what the lock guards: memory that comes back in the midst of it waits for its end
        self._blocks: dict[int, Array] = {}  # by address, as the next two
        self._lent: dict[int, weakref.ref[Array]] = {}
        self._returned: deque[int] = deque()
        self._free = MemoryPool(0)
        self._lent_bytes, self._most_bytes = 0, 0

    @property
    def free_bytes(self) -> int:
        """Counts what is kept, and not lent."""
        return self._free.bytes

    def lend(self, size: int) -> Array:
        """uint8[size], uninitialised; it comes back as soon as nothing holds the array that this returns."""
        if self._returned:
            self._settle()
        with self._guarded():
            place = self._free.take(_STREAM, size)
            if place is None:
                new = aligned_array((size,), np.dtype(np.uint8))  # NumPy asks for large pages
                place = address(new)
                self._blocks[place] = new
                self._free.add(place, size)
            self._lent_bytes += size
            self._most_bytes = max(self._most_bytes, self._lent_bytes)
        seen = self._blocks[place][:]
        self._lent[place] = weakref.ref(seen, lambda _: self._take_back(place))
        return seen

    def _take_back(self, place: int) -> None:
        """Called wherever Python happens to be when an array ends."""
        del self._lent[place]
        self._returned.append(place)
        if not self._inside:
            self._settle()

    def _settle(self) -> None:
        """Takes in what came back, and gives the system what is too much."""
        with self._guarded():
            while self._returned:
                place = self._returned.popleft()
                self._lent_bytes -= self._blocks[place].nbytes
                self._free.give(place, _STREAM)
            self._free.most = min(self._most_bytes - self._lent_bytes, sum(part.bytes for part in list(self.parts)))
            for place in self._free.surplus():
                del self._blocks[place]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        with self._lock:
            self._inside = True
            try:
                yield
            finally:
                self._inside = False


class ResultMemory:
    """Makes the results of a part of a graph.

    Args:
        results: shape and dtype of each, in torch's terms.
        pool: where memory of large ones is from.
    """

    def __init__(self, results: Sequence[tuple[tuple[int, ...], Any]], pool: ResultPool) -> None:
        self._torch = torch_module()
        sizes = [prod(shape) * dtype.itemsize for shape, dtype in results]
        self._made = [(shape, dtype, size) for (shape, dtype), size in zip(results, sizes, strict=True)]
        self._pool = pool
        self.bytes: int = sum(size for size in sizes if size >= _LARGE)
        pool.parts.add(self)

    def tensors(self) -> list[Any]:
        """Uninitialised tensors, one for each result."""
        return [self._tensor(*one) for one in self._made]

    def _tensor(self, shape: tuple[int, ...], dtype: Any, size: int) -> Any:
        if size < _LARGE:
            return self._torch.empty(shape, dtype=dtype)
        return self._torch.from_numpy(self._pool.lend(size)).view(dtype).view(shape)


POOL = ResultPool()  # of all parts of all graphs
