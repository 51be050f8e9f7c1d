"""Takes arrays out of the processors' caches, so that what runs next finds them in memory alone."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from ....common.once import once
from ..base import Array
from .memory import address

_LINE = 64
_ENOUGH = 256 << 20  # bytes that no cache holds beside anything else


def evict(arrays: Sequence[Array]) -> None:
    """Writes back and drops every line of these C-contiguous arrays, from the caches of all cores.

    x86 has an instruction for that. Elsewhere, and where LLVM is not installed, as much other memory is written as pushes them
    out.
    """
    if find_spec("llvmlite") is None:
        np.ones(_ENOUGH, np.uint8)
        return
    drop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(drop_address())
    for array in arrays:
        if array.size:
            drop(address(array), array.nbytes)


@once
def drop_address() -> int:
    """The address of compiled code that drops memory: void (void *start, int64_t bytes), of at least one byte."""
    from .jit import linked

    x86 = platform.machine().lower() in ("x86_64", "amd64")
    library = linked(_dropping(_instruction()) if x86 else _overwriting(), "drop")
    _kept.append(library)
    return int(library["drop"])


_kept: list[Any] = []  # code, and memory that it writes


def _instruction() -> str:
    """The quicker of the two where this processor has it: it does not wait for the line before (3 ns a line for 35)."""
    import llvmlite.binding as llvm

    return "clflushopt" if llvm.get_host_cpu_features().get("clflushopt") else "sse2.clflush"


def _dropping(instruction: str) -> str:
    extension = instruction.rpartition(".")[0] or instruction
    return f"""
declare void @llvm.x86.{instruction}(ptr)
declare void @llvm.x86.sse2.mfence()
define void @drop(ptr %start, i64 %size) "target-features"="+{extension}" {{
entry:
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %line = getelementptr i8, ptr %start, i64 %at
  call void @llvm.x86.{instruction}(ptr %line)
  %next = add i64 %at, {_LINE}
  %again = icmp slt i64 %next, %size
  br i1 %again, label %loop, label %last
last:
  %end = getelementptr i8, ptr %start, i64 %size
  %inside = getelementptr i8, ptr %end, i64 -1
  call void @llvm.x86.{instruction}(ptr %inside)
  call void @llvm.x86.sse2.mfence()
  ret void
}}
"""


def _overwriting() -> str:
    other = np.zeros(_ENOUGH, np.uint8)
    _kept.append(other)
    return f"""
define void @drop(ptr %start, i64 %size) {{
entry:
  br label %loop
loop:
  %at = phi i64 [ 0, %entry ], [ %next, %loop ]
  %line = getelementptr i8, ptr inttoptr (i64 {address(other)} to ptr), i64 %at
  store volatile i8 1, ptr %line
  %next = add i64 %at, {_LINE}
  %again = icmp slt i64 %next, {_ENOUGH}
  br i1 %again, label %loop, label %done
done:
  ret void
}}
"""
