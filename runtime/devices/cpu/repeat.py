"""The loop that is timed: it calls a kernel again and again, and Python costs nothing inside it.

It is compiled once in a process: LLVM takes two milliseconds for one of each kernel's own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .jit import linked

_TEXT = """
define void @repeat(ptr %kernel, ptr %arguments, ptr %prepared, ptr %workspace, i64 %count) {
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void %kernel(ptr %arguments, ptr %prepared, ptr %workspace)
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
# Takes the addresses of a kernel, its arguments, its prepared memory and its workspace, and how often it is called.
Repeat = Callable[[int, int, int, int, int], None]


@lru_cache(maxsize=1)
def repeat_loop() -> Repeat:
    """The loop as a function, which releases Python's global lock."""
    library = linked(_TEXT, "repeat")
    function: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(library["repeat"])
    function.library = library  # keeps the code
    return function  # type: ignore[no-any-return]
