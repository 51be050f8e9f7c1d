"""What an object file says of its functions: names, places and lengths, and which lines their instructions are of.

ELF of 64 bits, little-endian, as LLVM writes it for the processors that we know; the line programs of DWARF 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ....common.cached import cached_property

_SYMBOLS, _RELOCATIONS = 2, 4  # kinds of sections
_FUNCTION, _LOCAL = 2, 0  # kinds and bindings of symbols
_OPCODES_WITH_ADDRESS = 2  # an extended opcode sets the address


@dataclass(frozen=True, slots=True)
class ObjectFunction:
    """A function in a section. `is_global`: others may call it by its name."""

    name: str
    section: int
    start: int
    size: int
    is_global: bool


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The instructions from `start` on in a section are of this line."""

    section: int
    start: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class _Section:
    name: int
    kind: int
    offset: int
    size: int
    link: int
    info: int


class ObjectFile:
    """An object file that LLVM wrote."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        at, size, count, names = *struct.unpack_from("<Q", code, 40), *struct.unpack_from("<HHH", code, 58)
        rows = (struct.unpack_from("<IIQQQQIIQQ", code, at + size * number) for number in range(count))
        self._sections = [_Section(r[0], r[1], r[4], r[5], r[6], r[7]) for r in rows]
        self._names = self._sections[names].offset

    @cached_property
    def functions(self) -> tuple[ObjectFunction, ...]:
        """Its functions."""
        found = []
        for name, info, section, start, size in self._symbols:
            if info & 15 == _FUNCTION and section:
                found.append(ObjectFunction(name, section, start, size, info >> 4 != _LOCAL))
        return tuple(found)

    @cached_property
    def _symbols(self) -> list[tuple[str, int, int, int, int]]:
        """Name, information, section, value and size of each symbol."""
        found = []
        for table in (one for one in self._sections if one.kind == _SYMBOLS):
            names = self._sections[table.link].offset
            for at in range(table.offset, table.offset + table.size, 24):
                name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self._code, at)
                found.append((self._text(names + name), info, section, value, size))
        return found

    def _text(self, at: int) -> str:
        return self._code[at : self._code.index(b"\0", at)].decode(errors="replace")

    @cached_property
    def lines(self) -> tuple[SourceLine, ...]:
        """Tells which lines instructions are of; none without debug information."""
        for number, one in enumerate(self._sections):
            if self._text(self._names + one.name) == ".debug_line":
                addresses = self._relocated(number)
                return tuple(_Lines(self._code[one.offset : one.offset + one.size], addresses).rows())
        return ()

    def _relocated(self, section: int) -> dict[int, tuple[int, int]]:
        """Offset in a section -> the section and the offset in it whose address stands there."""
        found = {}
        for table in (one for one in self._sections if one.kind == _RELOCATIONS and one.info == section):
            for at in range(table.offset, table.offset + table.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", self._code, at)
                _, _, of, value, _ = self._symbols[info >> 32]
                found[offset] = of, value + addend
        return found


class _Lines:
    """Runs a line program (DWARF 4, section 6.2)."""

    def __init__(self, program: bytes, addresses: dict[int, tuple[int, int]]) -> None:
        self._bytes = program
        self._addresses = addresses
        self._at = 0

    def rows(self) -> Iterator[SourceLine]:
        """The lines of all units."""
        while self._at < len(self._bytes):
            (length,) = self._read("<I")
            end = self._at + length
            version, header = self._read("<HI")
            start = self._at + header
            if version == 4:
                yield from self._unit(start, end)
            self._at = end

    def _unit(self, start: int, end: int) -> Iterator[SourceLine]:
        least, _, _, base, span, special = self._read("<BBBbBB")
        operands = [0, *self._read(f"<{special - 1}B")]
        folders = ["", *self._names()]
        files = [""]
        while name := self._string():
            folder = folders[self._number()]
            self._number(), self._number()
            files.append(f"{folder}/{name}" if folder else name)
        self._at = start
        section, address, file, line = 0, 0, 1, 1
        while self._at < end:
            (code,) = self._read("<B")
            if code >= special:
                address += (code - special) // span * least
                line += base + (code - special) % span
                yield SourceLine(section, address, files[file], line)
            elif code == 0:
                size = self._number()
                behind = self._at + size
                if size and self._bytes[self._at] == _OPCODES_WITH_ADDRESS:
                    section, address = self._addresses.get(self._at + 1, (0, 0))
                elif size and self._bytes[self._at] == 1:
                    file, line = 1, 1
                self._at = behind
            elif code == 1:
                yield SourceLine(section, address, files[file], line)
            elif code == 2:
                address += self._number() * least
            elif code == 3:
                line += self._signed()
            elif code == 4:
                file = self._number()
            elif code == 8:
                address += (255 - special) // span * least
            elif code == 9:
                address += self._read("<H")[0]
            else:
                for _ in range(operands[code]):
                    self._number()

    def _read(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._bytes, self._at)
        self._at += struct.calcsize(form)
        return found

    def _names(self) -> Iterator[str]:
        while name := self._string():
            yield name

    def _string(self) -> str:
        end = self._bytes.index(b"\0", self._at)
        text = self._bytes[self._at : end].decode(errors="replace")
        self._at = end + 1
        return text

    def _number(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._read("<B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _signed(self) -> int:
        start = self._at
        value = self._number()
        bits = 7 * (self._at - start)
        return value - (1 << bits) if value >> (bits - 1) else value
