"""Memory of results: what callers dropped serves the next call.

A step of training makes, and drops, what its backward pass reads, and the gradients: hundreds of megabytes. C's allocator gives
much of it back to the system, which clears and maps new pages at the next step: the forward pass of mobilenet_v2 (eight images
of 128x128, two cores of a Zen 4) takes 25 ms on memory that is kept, and up to 50 on new pages.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...graph.importers.torch_export import torch_module
from ...runtime.devices.base import Array
from ...runtime.devices.cpu.memory import aligned_array

_LARGE = 1 << 16  # bytes from which on new memory costs more than looking for what was used before


class ResultMemory:
    """Makes the results of a part of a graph, and keeps what one call needs: more is given back where callers held more.

    Args:
        results: shape and dtype of each, in torch's terms.
    """

    def __init__(self, results: Sequence[tuple[tuple[int, ...], Any]]) -> None:
        self._torch = torch_module()
        sizes = [prod(shape) * dtype.itemsize for shape, dtype in results]
        self._made = [(shape, dtype, size) for (shape, dtype), size in zip(results, sizes, strict=True)]
        self._most = Counter(sizes)
        self._free: dict[int, list[Array]] = {size: [] for size in sizes if size >= _LARGE}
        self._lent: dict[int, weakref.ref[Array]] = {}  # by identity: the arrays they are of have no hash

    def tensors(self) -> list[Any]:
        """Uninitialised tensors, one for each result."""
        return [
            self._lend(*one) if one[2] in self._free else self._torch.empty(one[0], dtype=one[1]) for one in self._made
        ]

    def _lend(self, shape: tuple[int, ...], dtype: Any, size: int) -> Any:
        """A tensor on memory that comes back as soon as nothing holds it: tensor, view or array on it."""
        try:
            memory = self._free[size].pop()
        except IndexError:
            memory = aligned_array((size,), np.dtype(np.uint8))  # NumPy asks for large pages, which are cleared at once
        seen = memory[:]
        lent = weakref.ref(seen, lambda ended: self._take_back(ended, memory))
        self._lent[id(lent)] = lent
        return self._torch.from_numpy(seen).view(dtype).view(shape)

    def _take_back(self, ended: weakref.ref[Array], memory: Array) -> None:
        del self._lent[id(ended)]
        free = self._free[memory.nbytes]
        if len(free) < self._most[memory.nbytes]:
            free.append(memory)
