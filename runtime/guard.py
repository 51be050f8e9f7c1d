"""Arrays beside a page that nobody may touch, to catch reads and writes outside of a buffer. Linux and macOS."""

from __future__ import annotations

import ctypes
import mmap
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..common.errors import EnvironmentFailure

_PROT_NONE = 0
_PROT_READ = 1
_LARGE = 4 << 20


def guarded_array(shape: tuple[int, ...], dtype: DTypeLike, at_end: bool = True) -> NDArray[np.generic]:
    """An uninitialised C-contiguous array with a protected page right behind its last byte, or, with `at_end=False`, right
    before its first byte. Touching that page ends the process with a segmentation fault.

    Both ends have such a page; `at_end` says which one the array touches. The memory lives as long as the array or a view
    of it. Raises EnvironmentFailure if the operating system refuses the protection.
    """
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    page = mmap.PAGESIZE
    inner = -(-max(size, 1) // page) * page
    region = mmap.mmap(-1, inner + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if inner >= _LARGE and hasattr(mmap, "MADV_HUGEPAGE"):
        region.madvise(mmap.MADV_HUGEPAGE, page, inner)  # as NumPy does for its large arrays, so that times are alike
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for edge in (start, start + page + inner):
        _protect(edge, page, _PROT_NONE)
    offset = page + (inner - size if at_end else 0)
    return np.frombuffer(region, dtype=kind, count=prod(shape), offset=offset).reshape(shape)


def make_read_only(array: NDArray[np.generic]) -> None:
    """Makes the pages of a guarded array read-only: writing to it then ends the process as touching its guard does."""
    page = mmap.PAGESIZE
    first = array.ctypes.data // page * page
    size = -(-(array.ctypes.data + max(array.nbytes, 1) - first) // page) * page
    _protect(first, size, _PROT_READ)


@lru_cache(maxsize=1)
def _mprotect() -> Any:
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return protect


def _protect(start: int, size: int, how: int) -> None:
    if _mprotect()(start, size, how):
        raise EnvironmentFailure("a guard page could not be set up", found=f"mprotect: errno {ctypes.get_errno()}")
