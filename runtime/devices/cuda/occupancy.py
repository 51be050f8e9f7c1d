"""How many blocks of a kernel a multiprocessor holds at a time: the cost model's rule, with the driver's numbers."""

from __future__ import annotations

from ....cost_model.gpu.launch import L1_RESERVED, resident_blocks
from ....targets.isa import Multiprocessor
from ..driver import DeviceFacts

_BLOCKS = 32


def blocks_of(device: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> int:
    """Blocks that one multiprocessor holds: registers, threads and shared memory are the limits."""
    holds = Multiprocessor(device.shared, device.registers, device.threads, _BLOCKS)
    kept = 0.0 if device.capability >= (8, 0) else L1_RESERVED  # older ones keep nothing of each block for the driver
    return int(resident_blocks(holds, float(threads), float(registers), max(shared_bytes - kept, -L1_RESERVED + 1.0)))
