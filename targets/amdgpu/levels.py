"""The architectures of AMD's GPUs, and the one that the emulator plays."""

from __future__ import annotations

from dataclasses import replace

from ..backend import Cache, Level, Multiprocessor

_K, _M = 1024, 1024 * 1024

# A compute unit of CDNA 3: four SIMDs, each with 512 registers for each of 64 lanes, of which a thread names 256 (the others
# are for accumulators of matrix instructions); 64 KB of LDS. Sources: "AMD CDNA 3 Architecture" (white paper, 2023), "AMD
# Instinct MI300 Instruction Set Architecture" (2024), LLVM's user guide for AMDGPU. Products: 1307 TFLOP/s of an MI300X.
_CDNA3 = Multiprocessor(
    shared=64 * _K, registers=131072, threads=2048, blocks=32, thread_registers=256, warp=64, reserved=0, register_grain=512,
    copies_alone=False, products=2048, clock=2.1e9, l2_speed=64, memory_speed=5.3e12,
)  # fmt: skip


def _gfx(name: str, units: int, l2: Cache, holds: Multiprocessor) -> Level:
    """A GPU architecture, seen as a machine whose vectors are wavefronts: 64 lanes of 32 bits, 2 of them of FMA a cycle."""
    lanes, caches = 32 * holds.warp, (Cache(holds.shared, 128, 1), l2)
    return Level(name, name, frozenset(), lanes, 256, 2, 1, 1, units, caches, True, gpu=holds, family=name)


# First "cache": the LDS that one workgroup may have. Second: the L2 of one die.
LEVELS = (
    _gfx("gfx942", 304, Cache(4 * _M, 128, 38), _CDNA3),
    # what the emulator plays: one with few compute units, for tests without a GPU
    replace(_gfx("gfx942", 4, Cache(_M, 128, 4), _CDNA3), name="emulator", family="emulator", emulated=True),
)
