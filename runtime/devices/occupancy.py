"""How many blocks of a kernel a multiprocessor holds at a time. Source: CUDA C++ best practices guide, "Occupancy"."""

from __future__ import annotations

from .driver import DeviceFacts

_WARP = 32
_GRAIN = 256  # registers are handed out to a warp in this many
_SYSTEM = 1024  # bytes of shared memory that the driver keeps of each block (from capability 8.0 on)
_BLOCKS = 32


def blocks_of(device: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> int:
    """Blocks that one multiprocessor holds: registers, threads and shared memory are the limits."""
    warps = -(-threads // _WARP)
    of_warp = max(_GRAIN, -(-registers * _WARP // _GRAIN) * _GRAIN)
    by_registers = device.registers // of_warp // warps
    by_threads = device.threads // (warps * _WARP)
    system = _SYSTEM if device.capability >= (8, 0) else 0
    by_shared = device.shared // (shared_bytes + system) if shared_bytes + system else _BLOCKS
    return min(_BLOCKS, by_registers, by_threads, by_shared)
