"""What LLVM's code takes of a process goes back to the system, and LLVM works on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime.devices.cpu.compiler_memory import clean_mappings, release_compiler

TEXT = """\
7f00000000-7f00200000 r-xp 00000000 fe:01 77    /some where/libllvmlite.so
Rss:                 100 kB
Anonymous:             0 kB
7f00200000-7f00300000 r--p 00200000 fe:01 77    /some where/libllvmlite.so
Anonymous:            40 kB
7f00300000-7f00400000 rw-p 00300000 fe:01 77    /some where/libllvmlite.so
Anonymous:             0 kB
7f00500000-7f00600000 r-xp 00000000 fe:01 78    /some where/libpython3.so
Anonymous:             0 kB
7f00600000-7f00700000 r--p 00000000 00:00 0
Anonymous:             0 kB
"""


def test_only_pages_that_are_as_in_the_file_are_found() -> None:
    assert list(clean_mappings(TEXT, "libllvmlite")) == [(0x7F00000000, 0x7F00200000)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_pages_go_back_and_the_compiler_works_on() -> None:
    def taken() -> int:
        lines = Path("/proc/self/smaps").read_text(encoding="utf-8").split("\n")
        starts = [n for n, line in enumerate(lines) if "libllvmlite" in line and " r-xp " in line]
        return sum(int(line.split()[1]) for n in starts for line in lines[n : n + 6] if line.startswith("Rss:"))

    for number in range(2):
        program = ts.parse(f"input x: f32[40]\ny[i: 40] = x[i] * {number + 2.5}\nreturn y")
        assert np.allclose(ts.compile(program)(np.ones(40, np.float32)), number + 2.5)
        before = taken()
        release_compiler()
        assert before > 4000 and taken() < before / 8
