"""Tells perf of the kernels of this process, where the setting PERF asks for it.

    map        /tmp/perf-PID.map: names of functions, which `perf report` and others read
    jitdump    jit-PID.dump in this folder, or in $JITDUMPDIR: code and lines too, which `perf inject --jit` makes files of, so
               that `perf annotate` shows instructions and lines; record with `perf record -k mono`

The forms are Linux's (tools/perf/Documentation/jit-interface.txt and jitdump-specification.txt).
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import platform
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....common.forks import lock
from ....common.settings import PERF
from .object_file import ObjectFile, ObjectFunction, SourceLine

_MAGIC, _VERSION = 0x4A695444, 1
_CODE, _LINES = 0, 2  # kinds of records
_MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}
_LOCK = lock()


def names_to_export(objects: Sequence[bytes]) -> list[str]:
    """The functions whose addresses `tell` wants: one of each object, the others stand beside it."""
    if not PERF.value():
        return []
    return [one.name for code in objects for one in ObjectFile(code).functions if one.is_global]


def tell(objects: Sequence[bytes], addresses: Mapping[str, int]) -> None:
    """Tells of all functions of some objects. A file that cannot be written is no error: a kernel is no worse for it."""
    wanted = PERF.value()
    for code in objects if wanted else ():
        made = ObjectFile(code)
        found = placed(made.functions, addresses)
        with _LOCK:
            try:
                if "map" in wanted:
                    _write_map(found)
                if "jitdump" in wanted:
                    _dump().write(found, made.lines)
            except OSError:
                continue


def placed(functions: Sequence[ObjectFunction], addresses: Mapping[str, int]) -> list[tuple[ObjectFunction, int]]:
    """Functions with their addresses here. The linker keeps sections whole: one function says where its section is."""
    begins = {one.section: addresses[one.name] - one.start for one in functions if one.name in addresses}
    return [(one, begins[one.section] + one.start) for one in functions if one.section in begins]


def _write_map(functions: Sequence[tuple[ObjectFunction, int]]) -> None:
    lines = (f"{address:x} {one.size:x} {one.name}\n" for one, address in functions)
    with Path(f"/tmp/perf-{os.getpid()}.map").open("a", encoding="utf-8") as file:
        file.write("".join(lines))


@dataclass
class JitDump:
    """The dump of one process; it is mapped, which is how perf learns of it."""

    process: int
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        path = Path(os.environ.get("JITDUMPDIR", ".")) / f"jit-{self.process}.dump"
        self._file = path.open("w+b", buffering=0)
        machine = _MACHINES.get(platform.machine(), 0)
        self._file.write(struct.pack("<IIIIIIQQ", _MAGIC, _VERSION, 40, machine, 0, self.process, _now(), 0))
        self._mapped = mmap.mmap(self._file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)

    def write(self, functions: Sequence[tuple[ObjectFunction, int]], lines: Sequence[SourceLine]) -> None:
        """Adds functions; the lines are of their object."""
        for one, address in functions:
            own = [line for line in lines if line.section == one.section and 0 <= line.start - one.start < one.size]
            if own:
                rows = (
                    struct.pack("<Qii", address + line.start - one.start, line.line, 0) + line.file.encode() + b"\0"
                    for line in own
                )
                self._record(_LINES, struct.pack("<QQ", address, len(own)) + b"".join(rows))
            head = struct.pack(
                "<IIQQQQ", self.process, threading.get_native_id(), address, address, one.size, next(self.numbers)
            )
            self._record(_CODE, head + one.name.encode() + b"\0" + ctypes.string_at(address, one.size))

    def _record(self, kind: int, content: bytes) -> None:
        padded = content if kind == _CODE else content + b"\0" * (-len(content) % 8)
        self._file.write(struct.pack("<IIQ", kind, 16 + len(padded), _now()) + padded)


_dumps: dict[int, JitDump] = {}


def _dump() -> JitDump:
    """The dump of this process: a child of a fork has its own."""
    process = os.getpid()
    if process not in _dumps:
        _dumps[process] = JitDump(process)
    return _dumps[process]


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
