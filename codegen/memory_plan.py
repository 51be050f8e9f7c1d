"""Where buffers lie in the memory that the caller of a kernel provides."""

from __future__ import annotations

from dataclasses import dataclass

from .loop_ir import Allocate, Buffer, LoopProgram, Scope, Statement, substatements

ALIGNMENT = 64
PAGE = 4096
STAGGER = (
    5 * ALIGNMENT
)  # buffers of the same rows must not begin at the same place of a page: loads would wait for stores


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Byte offsets of PREPARED and WORKSPACE buffers by name. Each thread's private bytes follow the shared ones."""

    prepared: dict[str, int]
    workspace: dict[str, int]
    prepared_bytes: int
    shared_bytes: int
    private_bytes: int
    threads: int

    @property
    def workspace_bytes(self) -> int:
        """All that one call needs."""
        return self.shared_bytes + self.threads * self.private_bytes


def plan_memory(program: LoopProgram, threads: int) -> MemoryPlan:
    """Lays out a program that runs on `threads` threads."""
    prepared: dict[str, int] = {}
    workspace: dict[str, int] = {}
    ends = {Scope.PREPARED: 0, Scope.WORKSPACE: 0}
    for buffer in program.globals:
        if buffer.scope in ends:
            offsets = prepared if buffer.scope is Scope.PREPARED else workspace
            offsets[buffer.name], ends[buffer.scope] = place_scratch(ends[buffer.scope], buffer)
    private = max((_private_bytes(nest.body, 0) for nest in (*program.prepare, *program.nests)), default=0)
    if private > PAGE:
        private = _up(private, PAGE) + STAGGER
    return MemoryPlan(prepared, workspace, _up(ends[Scope.PREPARED]), _up(ends[Scope.WORKSPACE]), _up(private), threads)


def place_scratch(used: int, buffer: Buffer) -> tuple[int, int]:
    """The offset of a buffer behind `used` bytes, and the bytes used then."""
    start = _up(used)
    if buffer.bytes >= PAGE and used:
        start += STAGGER
    return start, start + max(1, buffer.bytes)


def has_private(statement: Statement) -> bool:
    """Whether SCRATCH is allocated in a statement."""
    return _private_bytes(statement, 0) > 0


def _private_bytes(statement: Statement, used: int) -> int:
    """The most bytes of SCRATCH that live at one time below a statement."""
    if isinstance(statement, Allocate) and statement.buffer.scope is Scope.SCRATCH:
        _, used = place_scratch(used, statement.buffer)
    return max([used, *(_private_bytes(child, used) for child in substatements(statement))])


def _up(size: int, step: int = ALIGNMENT) -> int:
    return -(-size // step) * step
