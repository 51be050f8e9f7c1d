"""The architectures of NVIDIA's GPUs, and the one that the emulator plays."""

from __future__ import annotations

from dataclasses import replace

from ..backend import Cache, Level, Multiprocessor

_K, _M = 1024, 1024 * 1024


def _sm(name: str, processors: int, l2: int, holds: Multiprocessor) -> Level:
    """A GPU architecture, seen as a machine whose vectors are warps: 32 lanes of 32 bits, 4 warps of FMA a cycle.

    One block may have the shared memory of a multiprocessor less 1 KB, which the driver keeps.
    """
    caches = Cache(holds.shared - holds.reserved, 128, 1), Cache(l2, 128, processors)
    family = name.rstrip("a")[:-1]  # the major compute capability
    lanes, most = 32 * holds.warp, holds.thread_registers
    return Level(name, name, frozenset(), lanes, most, 4, 1, 1, processors, caches, True, gpu=holds, family=family)


_REGISTERS = 65536
_AMPERE = Multiprocessor(164 * _K, _REGISTERS, 2048, 32)
_ADA = Multiprocessor(100 * _K, _REGISTERS, 1536, 24)
_HOPPER = Multiprocessor(228 * _K, _REGISTERS, 2048, 32, products=4096)
_BLACKWELL = Multiprocessor(228 * _K, _REGISTERS, 2048, 32, products=8192)

# First "cache": the shared memory that one block may have. Second: the L2 of the largest usual part.
LEVELS = (
    _sm("sm_70", 80, 6 * _M, Multiprocessor(97 * _K, _REGISTERS, 2048, 32, copies_alone=False)),
    _sm("sm_75", 40, 4 * _M, Multiprocessor(65 * _K, _REGISTERS, 1024, 16, copies_alone=False)),
    _sm("sm_80", 108, 40 * _M, _AMPERE),
    _sm("sm_86", 84, 6 * _M, Multiprocessor(100 * _K, _REGISTERS, 1536, 16)),
    _sm("sm_89", 128, 72 * _M, _ADA),
    _sm("sm_90", 132, 50 * _M, _HOPPER),
    _sm("sm_90a", 132, 50 * _M, _HOPPER),
    _sm("sm_100", 148, 126 * _M, _BLACKWELL),
    _sm("sm_100a", 148, 126 * _M, _BLACKWELL),
    _sm("sm_120", 170, 96 * _M, _ADA),
    _sm("sm_120a", 170, 96 * _M, _ADA),
    # what the emulator plays: an sm_80 with few multiprocessors, for tests without a GPU
    replace(
        _sm("sm_80", 4, _M, Multiprocessor(65 * _K, _REGISTERS, 2048, 32)),
        name="emulator",
        family="emulator",
        emulated=True,
    ),
)
