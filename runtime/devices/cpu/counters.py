"""Hardware counters of this process by Linux's perf_event_open(2): a group of events for each thread, read by a few
instructions of machine code, so that what reads them hardly counts itself.

Many virtual machines have no such counters, and containers often forbid the call: `CountersAbsent` says which it is.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ....common.errors import EnvironmentFailure
from .jit import linked


@dataclass(frozen=True, slots=True)
class CountedEvent:
    """An event as perf_event_open names it."""

    name: str
    kind: int
    number: int


HARDWARE = (CountedEvent("cycles", 0, 0), CountedEvent("instructions", 0, 1), CountedEvent("cache misses", 0, 3))
# The kernel's own, which are everywhere.
SOFTWARE = (CountedEvent("nanoseconds", 1, 1), CountedEvent("page faults", 1, 2))

_CALLS = {"x86_64": 298, "aarch64": 241, "riscv64": 241}  # of perf_event_open
_BYTES = 64  # of perf_event_attr as it was first
_READ = 1 | 2 | 8  # time enabled, time running, the whole group
_FLAGS = 1 << 5 | 1 << 6  # neither the kernel's work nor a hypervisor's
_numbers = itertools.count()
_HEAD = 3  # words of what is read before the values: how many there are, and the two times


class CountersAbsent(EnvironmentFailure):
    """Says why there are no counters here."""


class Counters:
    """The events of all threads of this process, for as long as the `with` lasts. Errors: CountersAbsent.

    `address` is that of a function `void (int64_t)`, which notes all values; `taken` gives what was noted.
    """

    def __init__(self, notes: int, events: Sequence[CountedEvent] = HARDWARE) -> None:
        """`notes`: how many there will be before `taken` at most."""
        self._events = tuple(events)
        self._files: list[int] = []
        try:
            for thread in sorted(int(one.name) for one in Path("/proc/self/task").iterdir()):
                self._open(thread)
        except OSError as error:
            self._close()
            raise absent(error) from None
        self._words = _HEAD + len(events)
        groups = self._files[:: len(events)]
        self._values = np.zeros((notes, len(groups), self._words), np.uint64)
        self._place = np.array([self._values.ctypes.data], np.uint64)
        self._leaders = np.array(groups, np.int32)
        symbol = f"note{next(_numbers)}"
        self._library = linked(self._text(symbol), symbol)
        self.address = int(self._library[symbol])

    def _open(self, thread: int) -> None:
        group = -1
        for event in self._events:
            head = struct.pack("IIQQQQQ", event.kind, _BYTES, event.number, 0, 0, _READ, _FLAGS)
            attributes = ctypes.create_string_buffer(head, _BYTES)
            file = _system_call(_CALLS.get(platform.machine(), -1), attributes, thread, -1, group, 0)
            group = file if group < 0 else group
            self._files.append(file)

    def _text(self, symbol: str) -> str:
        size, place = 8 * self._words, f"inttoptr (i64 {self._place.ctypes.data} to ptr)"
        return f"""
declare i64 @read(i32, ptr, i64)
define void @{symbol}(i64 %number) {{
entry:
  %start = load ptr, ptr {place}, align 8
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
  %where = phi ptr [ %start, %entry ], [ %then, %loop ]
  %at = getelementptr i32, ptr inttoptr (i64 {self._leaders.ctypes.data} to ptr), i64 %n
  %file = load i32, ptr %at, align 4
  %got = call i64 @read(i32 %file, ptr %where, i64 {size})
  %then = getelementptr i8, ptr %where, i64 {size}
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, {len(self._leaders)}
  br i1 %more, label %loop, label %done
done:
  store ptr %then, ptr {place}, align 8
  ret void
}}"""

    def taken(self) -> list[dict[str, float]]:
        """Returns the values of all threads together at each note since the last call, by the names of events.

        Where the processor has fewer counters than are wanted it takes turns: values are scaled to the whole time.
        """
        used = (int(self._place[0]) - self._values.ctypes.data) // (8 * self._words * len(self._leaders))
        self._place[0] = self._values.ctypes.data
        enabled, running = self._values[:used, :, 1], self._values[:used, :, 2]
        whole = self._values[:used, :, _HEAD:] * (enabled / np.maximum(running, 1))[..., None]
        return [
            {event.name: float(value) for event, value in zip(self._events, row, strict=True)}
            for row in whole.sum(axis=1)
        ]

    def __enter__(self) -> Counters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()


def _system_call(number: int, *arguments: Any) -> int:
    """Calls Linux by the number of a system call. Errors: OSError."""
    if number < 0:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    process = ctypes.CDLL(None, use_errno=True)
    process.syscall.restype = ctypes.c_long
    result = int(process.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def absent(error: OSError) -> CountersAbsent:
    """Makes the error for counters that could not be opened: why there are none, and what may help."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return CountersAbsent(
            "they are not allowed here",
            found=error.strerror or "",
            advice="sysctl kernel.perf_event_paranoid=2, or lower",
        )
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return CountersAbsent("this machine has none, as many virtual machines", found=error.strerror or "")
    return CountersAbsent("the system does not give them", found=error.strerror or str(error))
