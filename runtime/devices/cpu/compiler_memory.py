"""The memory that the compiler takes of this process: some 75 MB of LLVM's code, which no call of a kernel runs.

Pages of a library's file that nothing has written to are given back. They stay in the cache of the system's files, and whoever
compiles again gets them from there, in some milliseconds.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .memory import release_pages

_LIBRARY = "libllvmlite"
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+\s*(.*)")


def release_compiler() -> None:
    """Gives back what LLVM's code takes, and what C's allocator keeps of what compiling freed. Only Linux tells what the former
    is; elsewhere nothing happens."""
    if sys.platform == "linux":
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc
            trim(ctypes.c_size_t(0))
        for start, end in clean_mappings(
            Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace"), _LIBRARY
        ):
            release_pages(start, end - start)


def clean_mappings(smaps: str, library: str) -> Iterator[tuple[int, int]]:
    """The ranges of addresses of a library's file, in the text of smaps, that cannot be written, and in which nothing was."""
    found: tuple[int, int] | None = None
    for line in smaps.splitlines():
        if head := _MAPPING.fullmatch(line):
            is_code = head[3].startswith("r-") and Path(head[4]).name.startswith(library)
            found = (int(head[1], 16), int(head[2], 16)) if is_code else None
        elif found and line.startswith("Anonymous:"):  # private copies of pages, with relocations
            if line.split()[1] == "0":
                yield found
            found = None
