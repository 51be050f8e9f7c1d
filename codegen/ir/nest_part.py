"""A nest with all that its code depends on, under a name that tells it from every other.

Candidates of a program differ in one nest mostly, and sketches of a program have nests in common that only count their stages
differently. So nests are compared by their structure, which has numbers in place of names (structure.py): where that is equal,
so is the code, and what has been compiled once serves again (backends/cpu.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from .loop_ir import Buffer, LoopProgram, Nest, Scope
from .memory_plan import private_bytes
from .structure import Structure

_DIGITS = 16  # of a hash


@dataclass(frozen=True, slots=True)
class NestPart:
    """A nest with all that its code depends on.

    `digest`: hexadecimal digits that are the same for nests with the same code, whatever their names. `buffers`: the parameters
    of its function, in order. private_bytes: scratch memory of each thread, 0 where the nest uses none.
    """

    symbol: str
    nest: Nest
    digest: str
    buffers: tuple[Buffer, ...]
    tables: tuple[Buffer, ...]
    threads: int
    private_bytes: int

    @property
    def program(self) -> LoopProgram:
        """The nest as a program, for passes."""
        shared = (Scope.PREPARED, Scope.WORKSPACE)
        given = tuple(buffer for buffer in self.buffers if buffer.scope not in shared)
        others = tuple(buffer for buffer in self.buffers if buffer.scope in shared)
        return LoopProgram(self.symbol, given, (*others, *self.tables), (), (self.nest,))


def part_of(program: LoopProgram, nest: Nest, threads: int, symbol: str) -> NestPart:
    """A nest of a program, with those buffers and tables that occur in it."""
    structure, private = Structure(), private_bytes(nest.body)
    structure.add(nest.body)
    used = [buffer for buffer in (*program.arguments, *program.globals) if buffer.name in structure.buffers]
    buffers = tuple(buffer for buffer in used if buffer.scope is not Scope.TABLE)
    tables = tuple(buffer for buffer in used if buffer.scope is Scope.TABLE)
    structure.add((buffers, tables, threads, private))
    digest = sha256(structure.text.encode()).hexdigest()[:_DIGITS]
    return NestPart(symbol, nest, digest, buffers, tables, threads, private)
