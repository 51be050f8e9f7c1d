"""The loops that are timed: they call a kernel again and again, and Python costs nothing inside of them.

They are compiled once in a process: LLVM takes two milliseconds for one of each kernel's own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ....common.once import once
from ..base import Array
from .cold import drop_address
from .jit import linked
from .memory import address

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

declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {
  %time = alloca { i64, i64 }
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %place
  %whole = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %whole, %rest
  ret i64 %nanoseconds
}

define i64 @repeat_cold(ptr %kernel, ptr %arguments, ptr %prepared, ptr %workspace, i64 %count,
                        ptr %drop, ptr %dropped, i64 %pieces) {
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %run ]
  %sum = phi i64 [ 0, %entry ], [ %total, %run ]
  br label %dropping
dropping:
  %piece = phi i64 [ 0, %loop ], [ %following, %dropping ]
  %at = getelementptr { ptr, i64 }, ptr %dropped, i64 %piece
  %start = load ptr, ptr %at
  %behind = getelementptr i8, ptr %at, i64 8
  %bytes = load i64, ptr %behind
  call void %drop(ptr %start, i64 %bytes)
  %following = add nuw nsw i64 %piece, 1
  %another = icmp slt i64 %following, %pieces
  br i1 %another, label %dropping, label %run
run:
  %begun = call i64 @now()
  call void %kernel(ptr %arguments, ptr %prepared, ptr %workspace)
  %ended = call i64 @now()
  %taken = sub i64 %ended, %begun
  %total = add i64 %sum, %taken
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  %result = phi i64 [ 0, %entry ], [ %total, %run ]
  ret i64 %result
}
"""
# Takes the addresses of a kernel, its arguments, its prepared memory and its workspace, and how often it is called.
Repeat = Callable[[int, int, int, int, int], None]


@once
def _library() -> Any:
    return linked(_TEXT, "repeat", others=["repeat_cold"])


@once
def repeat_loop() -> Repeat:
    """The loop as a function, which releases Python's global lock."""
    function: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(_library()["repeat"])
    return function  # type: ignore[no-any-return]


def repeat_cold(
    kernel: int, arguments: int, prepared: int, workspace: int, count: int, dropped: Sequence[Array]
) -> float:
    """The seconds that so many calls took, before each of which the arrays were dropped from all caches: at least one, none of
    them empty. The clock stands still meanwhile."""
    pieces = (ctypes.c_int64 * (2 * len(dropped)))(*(n for array in dropped for n in (address(array), array.nbytes)))
    places = [ctypes.c_void_p] * 4
    kinds = [*places, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(_library()["repeat_cold"])
    where = ctypes.addressof(pieces)
    nanoseconds = function(kernel, arguments, prepared, workspace, count, drop_address(), where, len(dropped))
    return int(nanoseconds) / 1e9
