"""Memory that was freed and serves again, without asking who gave it: the driver of a GPU, or the system.

What is freed of a GPU may still be in use by work under way: on the same stream, what comes next comes after that. So memory is
kept by stream, and another stream gets it only after the driver has had it back, who waits for all work. Hosts have one stream.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

GRAIN = 512  # bytes: sizes are rounded up to multiples, so that more of them are alike


def rounded(size: int) -> int:
    """The size of the allocation for so many bytes."""
    return -(-size // GRAIN) * GRAIN


class MemoryPool:
    """Allocations that nobody uses, by stream and size.

    Attributes:
        most: bytes of them that are kept at most.
        bytes: how many they have.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        self._sizes: dict[int, int] = {}  # of all allocations
        self._free: OrderedDict[int, tuple[int, int]] = OrderedDict()  # pointer -> stream, size; the oldest first
        self._by_kind: dict[tuple[int, int], list[int]] = {}

    def add(self, pointer: int, size: int) -> None:
        """A new allocation, in use."""
        self._sizes[pointer] = size

    def take(self, stream: int, size: int) -> int | None:
        """One of this size that was used last on this stream."""
        kind = self._by_kind.get((stream, size))
        if not kind:
            return None
        pointer = kind.pop()
        del self._free[pointer]
        self.bytes -= size
        return pointer

    def give(self, pointer: int, stream: int) -> None:
        """It is used no more."""
        size = self._sizes.get(pointer)
        if size is not None and pointer not in self._free:
            self._free[pointer] = stream, size
            self._by_kind.setdefault((stream, size), []).append(pointer)
            self.bytes += size

    def surplus(self, all_of_it: bool = False) -> Iterator[int]:
        """Returns what is too much to keep, the oldest first, to be given back to the driver."""
        while self._free and (all_of_it or self.bytes > self.most):
            pointer, (stream, size) = self._free.popitem(last=False)
            self._by_kind[stream, size].remove(pointer)
            self.bytes -= size
            del self._sizes[pointer]
            yield pointer

    def clear(self) -> None:
        """All is gone, what is in use too."""
        self._sizes.clear()
        self._free.clear()
        self._by_kind.clear()
        self.bytes = 0
