"""Takes arrays out of the processors' caches, so that what runs next finds them in memory alone."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..base import Array
from .memory import address

_LINE = 64
_ENOUGH = 256 << 20  # bytes that no cache holds beside anything else


def evict(arrays: Sequence[Array]) -> None:
    """Writes back and drops every line of these C-contiguous arrays, from the caches of all cores.

    x86 has an instruction for that. Elsewhere, and where LLVM is not installed, as much other memory is written as pushes them
    out.
    """
    if platform.machine().lower() not in ("x86_64", "amd64") or not _has_llvm():
        np.ones(_ENOUGH, np.uint8)
        return
    drop = _drop()
    for array in arrays:
        if array.size:
            drop(address(array), array.nbytes)


@lru_cache(maxsize=1)
def _has_llvm() -> bool:
    return find_spec("llvmlite") is not None


@lru_cache(maxsize=1)
def _drop() -> Callable[[int, int], None]:
    from .jit import linked

    library = linked(_TEXT, "drop")
    function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library["drop"])
    function.library = library  # keeps the code
    return function  # type: ignore[no-any-return]


_TEXT = f"""
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()
define void @drop(ptr %start, i64 %size) {{
entry:
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %line = getelementptr i8, ptr %start, i64 %at
  call void @llvm.x86.sse2.clflush(ptr %line)
  %next = add i64 %at, {_LINE}
  %again = icmp slt i64 %next, %size
  br i1 %again, label %loop, label %last
last:
  %end = getelementptr i8, ptr %start, i64 %size
  %inside = getelementptr i8, ptr %end, i64 -1
  call void @llvm.x86.sse2.clflush(ptr %inside)
  call void @llvm.x86.sse2.mfence()
  ret void
}}
"""
