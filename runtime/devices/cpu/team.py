"""How kernels enter parallel regions: through the OpenMP runtime, but for a thread that came out of a fork.

What a fork leaves of a team stands in common/forks.py. So kernels call the function here, which runs the region in the calling
thread alone where that is the one that forked.

    void parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags)    the signature of GOMP_parallel
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache
from typing import Any

from .jit import linked

_USED, _ALONE = 0, 1
# whether a region was opened in this process or one that it was forked from, and the thread (pthread_self) that has no team
_state = (ctypes.c_int64 * 2)()
_SHARES_A_RUNTIME = "sklearn"  # it may open regions of the same runtime, in the same thread, which nobody tells us


@lru_cache(maxsize=1)
def parallel(gomp_parallel: int) -> int:
    """The address of the function at the head of this file; the argument is that of GOMP_parallel."""
    addresses = {"GOMP_parallel": gomp_parallel, "pthread_self": _process_symbol("pthread_self")}
    library = linked(_text(), "parallel", addresses)
    _kept.append(library)
    os.register_at_fork(after_in_child=_after_fork)
    return int(library["parallel"])


_kept: list[Any] = []


def _process_symbol(name: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


def _after_fork() -> None:
    """Cleans up in the child, where only the thread that forked goes on."""
    if _state[_USED] or _SHARES_A_RUNTIME in sys.modules:
        this_thread = ctypes.CDLL(None).pthread_self
        this_thread.restype = ctypes.c_int64
        _state[_ALONE] = this_thread()


def _text() -> str:
    used, alone = (f"inttoptr (i64 {ctypes.addressof(_state) + 8 * word} to ptr)" for word in (_USED, _ALONE))
    return f"""
declare i64 @pthread_self()
declare void @GOMP_parallel(ptr, ptr, i32, i32)
define void @parallel(ptr %region, ptr %data, i32 %threads, i32 %flags) {{
  %alone = load atomic i64, ptr {alone} monotonic, align 8
  %self = call i64 @pthread_self()
  %single = icmp eq i64 %self, %alone
  br i1 %single, label %without, label %look
without:
  call void %region(ptr %data)
  ret void
look:
  %used = load atomic i64, ptr {used} monotonic, align 8
  %again = icmp ne i64 %used, 0
  br i1 %again, label %with, label %first
first:
  store atomic i64 1, ptr {used} monotonic, align 8
  br label %with
with:
  call void @GOMP_parallel(ptr %region, ptr %data, i32 %threads, i32 %flags)
  ret void
}}
"""
