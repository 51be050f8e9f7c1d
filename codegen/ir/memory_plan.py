"""Where buffers lie in the memory that the caller of a kernel provides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .facts import facts
from .loop_ir import Allocate, Buffer, LoopProgram, Scope, Statement, substatements

ALIGNMENT = 64
PAGE = 4096
SHARED_ALIGNMENT = 128  # of each buffer in the shared memory of a block
STAGGER = 5 * ALIGNMENT  # buffers of the same rows begin at different places of a page, or loads would wait for stores
# Between the scratch memory of two threads lies this many times as much that nobody uses, up to APART bytes. A core that walks
# over rows with a fixed step asks for the next 16 of them ahead, also beyond the end: what another core has just written there
# would go from cache to cache and back (128x768x3072 with sums in 2 x 196 KB, an EPYC of Zen 3, two threads: 5.18 ms; 3.41
# where 384 KB lie between).
UNUSED = 2
APART = 512 << 10


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Byte offsets of PREPARED and WORKSPACE buffers by name. Each thread's scratch memory follows the shared bytes.

    What only the prepare nests read lies behind all else that is prepared: nobody needs it when they have run.
    """

    prepared: dict[str, int]
    workspace: dict[str, int]
    prepared_bytes: int  # that calls read
    preparing_bytes: int  # behind those, while the kernel is prepared
    shared_bytes: int
    scratch_bytes: int  # of one thread, in the nest that needs most
    private_bytes: int  # from there to the scratch memory of the next thread, in the nest where that is farthest
    threads: int

    @property
    def workspace_bytes(self) -> int:
        """All that one call needs."""
        return self.shared_bytes + (self.threads - 1) * self.private_bytes + self.scratch_bytes


def plan_memory(program: LoopProgram, threads: int) -> MemoryPlan:
    """Lays out a program that runs on `threads` threads."""
    ahead = [buffer for buffer in program.globals if buffer.scope is Scope.PREPARED]
    called = frozenset().union(*(facts(nest.body).buffers for nest in program.nests)) if ahead else frozenset()
    prepared, kept = _laid(0, [buffer for buffer in ahead if buffer.name in called])
    passing, end = _laid(kept, [buffer for buffer in ahead if buffer.name not in called])
    workspace, shared = _laid(0, [buffer for buffer in program.globals if buffer.scope is Scope.WORKSPACE])
    bodies = [nest.body for nest in (*program.prepare, *program.nests)]
    scratch, private = (max(map(size, bodies), default=0) for size in (_scratch_bytes, private_bytes))
    return MemoryPlan(prepared | passing, workspace, kept, end - kept, shared, _up(scratch), private, threads)


def _laid(used: int, buffers: Sequence[Buffer]) -> tuple[dict[str, int], int]:
    """The offsets of buffers behind `used` bytes, and the bytes used then."""
    offsets: dict[str, int] = {}
    for buffer in buffers:
        offsets[buffer.name], used = place_scratch(used, buffer)
    return offsets, _up(used)


def place_scratch(used: int, buffer: Buffer) -> tuple[int, int]:
    """The offset of a buffer behind `used` bytes, and the bytes used then."""
    start = _up(used)
    if buffer.bytes >= PAGE and used:
        start += STAGGER
    return start, start + max(1, buffer.bytes)


def private_bytes(statement: Statement) -> int:
    """Says how far apart the SCRATCH memory of threads lies that run a statement; 0 if it needs none."""
    most = _scratch_bytes(statement)
    apart = most + min(UNUSED * most, APART)
    return _up(_up(apart, PAGE) + STAGGER if most > PAGE else apart)


def _scratch_bytes(statement: Statement, used: int = 0) -> int:
    """The most bytes of SCRATCH that live at one time below a statement."""
    if isinstance(statement, Allocate) and statement.buffer.scope is Scope.SCRATCH:
        _, used = place_scratch(used, statement.buffer)
    return max([used, *(_scratch_bytes(child, used) for child in substatements(statement))])


def _up(size: int, step: int = ALIGNMENT) -> int:
    return -(-size // step) * step
