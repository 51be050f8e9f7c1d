"""The matrix unit of x86 (AMX): the shapes of its tiles, and leave to use them. Linux lets a process use the tile
registers only once it has asked for them.

The state of the tiles is 8 KB for each thread that uses them, so the kernel gives it out on demand (Linux 5.16,
Documentation/arch/x86/xstate.rst). An instruction on tiles without the permission ends the process.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from functools import cache

from .matrix_instructions import MatrixInstruction

_ARCH_PRCTL = 158  # the number of the system call on x86-64
_ARCH_REQ_XCOMP_PERM = 0x1023
_XTILEDATA = 18  # the component of the extended state that holds the tiles


@cache
def allow_matrix_unit() -> bool:
    """Asks for this whole process, once: threads that it has and those it will have. True if tile instructions may be used.

    Raises nothing: False on another system or processor, or where the kernel refuses.
    """
    if sys.platform != "linux" or platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall.restype = ctypes.c_long
        asked = [ctypes.c_long(n) for n in (_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA)]
        return int(libc.syscall(*asked)) == 0
    except (OSError, AttributeError):
        return False


def tile_configuration(row: MatrixInstruction) -> bytes:
    """64 bytes: palette 1, and for each tile its rows and the bytes of one (Intel's manual, LDTILECFG)."""
    return struct.pack("<BB14x8H16x8B8x", 1, 0, *[row.row_bytes] * row.registers, *[row.m] * row.registers)
