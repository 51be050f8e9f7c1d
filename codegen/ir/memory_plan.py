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


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Byte offsets of PREPARED and WORKSPACE buffers by name. Each thread's private bytes follow the shared ones.

    What only the prepare nests read lies behind all else that is prepared: nobody needs it when they have run.
    """

    prepared: dict[str, int]
    workspace: dict[str, int]
    prepared_bytes: int  # that calls read
    preparing_bytes: int  # behind those, while the kernel is prepared
    shared_bytes: int
    private_bytes: int  # of the nest that needs most; each has its own at the same place
    threads: int

    @property
    def workspace_bytes(self) -> int:
        """All that one call needs."""
        return self.shared_bytes + self.threads * self.private_bytes


def plan_memory(program: LoopProgram, threads: int) -> MemoryPlan:
    """Lays out a program that runs on `threads` threads."""
    ahead = [buffer for buffer in program.globals if buffer.scope is Scope.PREPARED]
    called = frozenset().union(*(facts(nest.body).buffers for nest in program.nests)) if ahead else frozenset()
    prepared, kept = _laid(0, [buffer for buffer in ahead if buffer.name in called])
    passing, end = _laid(kept, [buffer for buffer in ahead if buffer.name not in called])
    workspace, shared = _laid(0, [buffer for buffer in program.globals if buffer.scope is Scope.WORKSPACE])
    private = max((private_bytes(nest.body) for nest in (*program.prepare, *program.nests)), default=0)
    return MemoryPlan(prepared | passing, workspace, kept, end - kept, shared, private, threads)


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
    most = _most_bytes(statement, 0)
    return _up(_up(most, PAGE) + STAGGER if most > PAGE else most)


def _most_bytes(statement: Statement, used: int) -> int:
    """The most bytes of SCRATCH that live at one time below a statement."""
    if isinstance(statement, Allocate) and statement.buffer.scope is Scope.SCRATCH:
        _, used = place_scratch(used, statement.buffer)
    return max([used, *(_most_bytes(child, used) for child in substatements(statement))])


def _up(size: int, step: int = ALIGNMENT) -> int:
    return -(-size // step) * step
