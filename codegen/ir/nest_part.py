"""A nest with all that its code depends on, under a name that tells it from every other.

Candidates of a program differ in one nest mostly, and sketches of a program have nests in common that only count their stages
differently. So nests are compared by their text with numbered names instead of those of stages, axes and loops: where that is
equal, so is the code, and what has been compiled once serves again (backends/cpu.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from ...tensor.reserved import RESERVED
from .loop_ir import Buffer, LoopProgram, Nest, Scope
from .memory_plan import private_bytes
from .printing import print_buffer, statement_lines

_BUFFER = re.compile(r"([\w.]+)\[")  # as it is read, written or allocated
_NAME = re.compile(
    r"\b[A-Za-z_]\w*\d\b"
)  # no word of loop IR ends with a digit, but for those of expressions and types
_DIGITS = 16  # of a hash


@dataclass(frozen=True, slots=True)
class NestPart:
    """A nest with all that its code depends on.

    `text`: the nest as it was lowered. `buffers`: the parameters of its function, in order. private_bytes: scratch memory of
    each thread, 0 where the nest uses none.
    """

    symbol: str
    nest: Nest
    text: str
    buffers: tuple[Buffer, ...]
    tables: tuple[Buffer, ...]
    threads: int
    private_bytes: int

    @property
    def declaration(self) -> str:
        """Of its function, for the module that calls it."""
        return f"declare void @{self.symbol}({', '.join(['ptr'] * (len(self.buffers) + 1))})"

    def numbered(self, number: int) -> str:
        """A name as long as the symbol, with a number in place of its hash."""
        return f"{self.symbol[:-_DIGITS]}{number:0{_DIGITS}x}"

    @property
    def digest(self) -> str:
        """Hexadecimal digits that are the same for nests with the same code, whatever their names."""
        lines = [f"{self.threads} threads, {self.private_bytes} bytes"]
        lines += [print_buffer(buffer) for buffer in (*self.buffers, *self.tables)]
        return sha256(_without_names("\n".join([*lines, self.text])).encode()).hexdigest()[:_DIGITS]


def part_of(program: LoopProgram, nest: Nest, threads: int, symbol: str) -> NestPart:
    """A nest of a program, with those buffers and tables that occur in it."""
    text = "\n".join(statement_lines(nest.body))
    names = set(_BUFFER.findall(text))
    used = [buffer for buffer in (*program.arguments, *program.globals) if buffer.name in names]
    buffers = tuple(buffer for buffer in used if buffer.scope is not Scope.TABLE)
    tables = tuple(buffer for buffer in used if buffer.scope is Scope.TABLE)
    return NestPart(symbol, nest, text, buffers, tables, threads, private_bytes(nest.body))


def _without_names(text: str) -> str:
    """The text of loop IR with names numbered by their first appearance, but for names that do not end with a digit."""
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        name = found[0]
        return name if name in RESERVED else numbers.setdefault(name, f"v{len(numbers)}")

    return _NAME.sub(numbered, text)
