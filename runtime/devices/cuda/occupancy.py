"""How many blocks of a kernel a multiprocessor holds at a time: the cost model's rule, with the driver's numbers."""

from __future__ import annotations

from ....cost_model.gpu.launch import resident_blocks
from ....targets.backend import Multiprocessor
from ..driver import DeviceFacts

_BLOCKS = 32
_RESERVED = 1024  # bytes that the driver keeps of each block


def blocks_of(device: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> int:
    """Blocks that one multiprocessor holds: registers, threads and shared memory are the limits."""
    reserved = _RESERVED if device.capability >= (8, 0) else 0  # older ones keep nothing
    holds = Multiprocessor(device.shared, device.registers, device.threads, _BLOCKS, reserved=reserved)
    return int(resident_blocks(holds, float(threads), float(registers), float(shared_bytes)))
