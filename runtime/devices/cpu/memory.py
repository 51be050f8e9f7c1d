"""Memory of the processors: aligned arrays, and what kernels keep for themselves, on large pages.

A kernel writes its packed panels and reads them again and again, in pieces that lie far apart. On pages of 4 KiB each piece
costs a search in the page tables, in a virtual machine two of them, one inside the other. Measured on two cores of such a
machine (Sapphire Rapids, matmul 1024^3, otherwise the same code): 285 GFLOP/s with small pages, 317 with large ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from math import prod
from typing import Any

import numpy as np

from ..base import Array

ALIGNMENT = 64
_MATTERS = 1 << 16  # bytes from which on an output's alignment matters more than the microsecond it costs
_BEHIND = 16  # bytes behind a line of memory at which C's allocator, and so NumPy, begins large arrays
LARGE_PAGE = 2 << 20
_LARGE = 128 << 10  # bytes from which on a page of its own pays


def _slow_address(array: Array) -> int:
    number: int = array.__array_interface__["data"][0]
    return number


def _fast_address(array: Array) -> int:
    """NumPy's C structure begins with the head of all objects and the data pointer (PyArrayObject_fields, a stable ABI)."""
    return _pointer_at(id(array) + _HEAD).value or 0


_HEAD = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address
_probe = np.arange(3.0)[1:]
# the slow way takes about 1 us: a third of what a call may cost
address = _fast_address if _fast_address(_probe) == _slow_address(_probe) else _slow_address


def aligned_array(shape: tuple[int, ...], dtype: np.dtype[Any], alignment: int = ALIGNMENT, behind: int = 0) -> Array:
    """An uninitialised C-contiguous array whose first byte is `behind` bytes behind a multiple of `alignment`."""
    size = prod(shape) * dtype.itemsize
    memory = np.empty(size + alignment, np.uint8)
    start = (behind - address(memory)) % alignment
    return memory[start : start + size].view(dtype).reshape(shape)


def output_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array for a caller; large ones begin at a cache line, so that vectors do not straddle lines."""
    if prod(shape) * dtype.itemsize < _MATTERS:
        return np.empty(shape, dtype)
    return aligned_array(shape, dtype)


def usual_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array that lies as NumPy's mostly do, which is not at the begin of a line of memory.

    NumPy takes what C's allocator gives: large arrays begin 16 bytes behind a page, others at any multiple of 16 bytes, three
    of four not at a line. It matters: vectors lie across two lines then, and nothing can be stored past the caches (a transpose
    of 2048x2048 took twice the time). Where `numpy.empty` itself is asked, chance says which of the two a time is of.
    """
    return aligned_array(shape, dtype, behind=_BEHIND)


def usual_copy(array: Array) -> Array:
    """A copy that lies where users' arrays do."""
    copy = usual_array(array.shape, array.dtype)
    copy[...] = array
    return copy


def kept_memory(size: int, behind: int = 0) -> Array:
    """uint8[size] for a kernel's own use, for as long as it lives; the first byte is at a multiple of `ALIGNMENT`, of
    `LARGE_PAGE` where it is much and the system has such pages. Raises MemoryError.

    behind: so many bytes more may be used behind the array, until `release_behind`.
    """
    if not _on_pages(size + behind):
        return aligned_array((size + behind,), np.dtype(np.uint8))[:size]
    whole = -(-(size + behind) // LARGE_PAGE) * LARGE_PAGE
    try:
        region = mmap.mmap(-1, whole + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"{size + behind} bytes for a kernel's own use: {error}") from error
    memory = np.frombuffer(region, np.uint8)
    start = -address(memory) % LARGE_PAGE
    with contextlib.suppress(OSError):  # a system without them: small pages do too
        region.madvise(mmap.MADV_HUGEPAGE, 0, start + _in_large_pages(size))
    return memory[start : start + size]


def _in_large_pages(size: int) -> int:
    """The bytes of memory of this size that large pages are for. Of less than two of them the end is left out that fills less
    than half of one. Of more it is not: a fast convolution of resnet50 whose products lay in small pages, behind 8 MB of large
    ones, took 590 us instead of 415 (two threads of a Granite Rapids)."""
    whole, rest = divmod(size, LARGE_PAGE)
    last = rest > 0 and (not whole or whole >= 2 or 2 * rest >= LARGE_PAGE)
    return (whole + last) * LARGE_PAGE


def unchanging(array: Array) -> Array:
    """The array itself if it is of a file that is mapped to be read; else a copy, as its owner may write to it."""
    if _is_mapped(array):
        return array
    copy = aligned_array(array.shape, array.dtype)
    copy[...] = array
    return copy


def release_mapped(array: Array, *, sparse: bool = False) -> None:
    """Gives the pages of an array back to the system, if it is of a file that is mapped to be read: who reads it again gets
    them again. `sparse`: few of them will be asked for, so that a large page would bring much that nobody reads."""
    if _is_mapped(array):
        first = -(-address(array) // mmap.PAGESIZE) * mmap.PAGESIZE
        last = (address(array) + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if first < last:
            release_pages(first, last - first)
            if sparse and hasattr(mmap, "MADV_NOHUGEPAGE"):
                _advise(first, last - first, mmap.MADV_NOHUGEPAGE)


def _is_mapped(array: Array) -> bool:
    memory: Any = array
    while isinstance(memory, np.ndarray) and not memory.flags.writeable:
        memory = memory.base
    return isinstance(memory, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED")


def release_behind(memory: Array, behind: int) -> None:
    """Gives back to the system what `kept_memory` has behind an array: whole pages, where it took any."""
    if not _on_pages(memory.nbytes + behind):
        return
    end = address(memory) + memory.nbytes
    first = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
    if first < end + behind:
        release_pages(first, end + behind - first)


def _on_pages(size: int) -> bool:
    """Says whether memory of this size is mapped for itself."""
    return size >= _LARGE and hasattr(mmap, "MADV_HUGEPAGE")


def release_pages(start: int, size: int) -> None:
    """Tells the system that what whole pages hold is needed no more, or is in their file. It may decline."""
    _advise(start, size, mmap.MADV_DONTNEED)


def _advise(start: int, size: int, advice: int) -> None:
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), advice)
