"""What all GPU rules share: the sizes of the hardware, and the few numbers that bind a loop to threads."""

from __future__ import annotations

from ....tensor.dtype import DType
from ...extents import Extent, ceildiv, product
from ...schedule import LoopHandle, Schedule

WIDEST = 16  # bytes that one thread loads at once


def widest(dtype: DType) -> int:
    """Returns how many elements one thread loads at once."""
    return max(1, WIDEST // dtype.bytes)


def lanes_factor(s: Schedule, name: str, dtype: DType) -> Extent:
    """Leaves open how many elements one access of a thread covers: a power of two, the widest by default."""
    options = [1 << n for n in range(widest(dtype).bit_length())]
    return s.choice(name, options, default=options[-1]) if len(options) > 1 else 1


def threads_factor(s: Schedule, name: str, extent: Extent, default: int, at_most: int = 0) -> Extent:
    """Leaves open how many threads run along a loop of `extent` points; by default as many as a block can have."""
    return s.factor(name, extent, at_most=at_most or s.gpu.block_threads, default=default)


def require_threads(s: Schedule, *threads: Extent) -> None:
    """Rules out blocks that no GPU runs."""
    most = s.gpu.block_threads
    s.require(product(list(threads)) <= most, f"at most {most} threads a block")


def most(extent: Extent, lanes: int) -> Extent:
    """Returns the most accesses of `lanes` elements along a loop."""
    return ceildiv(extent, lanes)


def bind_threads(s: Schedule, *loops: LoopHandle) -> None:
    """Lays one linear thread index over these loops, the last one fastest."""
    if loops:
        s.bind("thread", 0, *loops)


def bind_blocks(s: Schedule, *loops: LoopHandle) -> None:
    """Lays one linear block index over these loops, the last one fastest."""
    if loops:
        s.bind("block", 0, *loops)
