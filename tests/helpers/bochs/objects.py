"""Links ELF objects of x86-64 into the memory of a machine: each section in pages of its own, with the rights that it asks for.

What kernels call beyond themselves is a few instructions here: memory is set and copied by the processor's string instructions,
and a team of threads (libgomp) is one thread that runs the whole region.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.bochs.machine import Machine, Region

_ALLOCATED, _EXECUTABLE, _WRITABLE = 2, 4, 1  # flags of sections
_NO_BITS, _SYMBOLS, _RELOCATIONS = 8, 2, 4  # kinds
_ABSOLUTE, _ABSOLUTE_32, _RELATIVE, _RELATIVE_64, _TABLE = {1}, {10, 11}, {2, 4}, {24}, {9, 41, 42}  # R_X86_64_*

_FUNCTIONS = {
    "memset": "48 89 f8 49 89 c0 89 f0 48 89 d1 f3 aa 4c 89 c0 c3",
    "memcpy": "48 89 f8 48 89 d1 f3 a4 c3",
    "GOMP_parallel": "48 89 f8 48 89 f7 ff e0",
    "omp_get_thread_num": "31 c0 c3",
    "omp_get_num_threads": "b8 01 00 00 00 c3",
}


@dataclass(frozen=True, slots=True)
class _Section:
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Object:
    """One object: its sections in memory, and where its symbols are."""

    def __init__(self, machine: Machine, content: bytes, number: int) -> None:
        start, size, count, _ = (*struct.unpack_from("<Q", content, 0x28), *struct.unpack_from("<3H", content, 0x3A))
        self.content = content
        self.sections = [_Section(*struct.unpack_from("<2I4Q2I2Q", content, start + n * size)) for n in range(count)]
        self.places: dict[int, Region] = {}
        for n, section in enumerate(self.sections):
            if section.flags & _ALLOCATED and section.size:
                self.places[n] = machine.region(
                    f"section {n} of object {number}", section.size, bool(section.flags & _WRITABLE),
                    bool(section.flags & _EXECUTABLE),
                )  # fmt: skip
                if section.kind != _NO_BITS:
                    data = np.frombuffer(content, np.uint8, section.size, section.offset)
                    self.places[n].memory[: section.size] = data

    def symbols(self) -> Iterator[tuple[str, int | None, bool]]:
        """Each symbol in order: its name, its address unless it is another's, whether others see it."""
        for table in self.sections:
            if table.kind == _SYMBOLS:
                names = self.sections[table.link].offset
                for at in range(table.offset, table.offset + table.size, 24):
                    name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.content, at)
                    end = self.content.index(b"\0", names + name)
                    place = self.places.get(section)
                    address = None if place is None else place.address + value
                    yield self.content[names + name : end].decode(), address, info >> 4 != 0

    def relocations(self) -> Iterator[tuple[Region, int, int, int, int]]:
        """Each one: region, offset, kind, number of the symbol, addend."""
        for table in self.sections:
            if table.kind == _RELOCATIONS and table.info in self.places:
                for at in range(table.offset, table.offset + table.size, 24):
                    offset, info, addend = struct.unpack_from("<QQq", self.content, at)
                    yield self.places[table.info], offset, info & 0xFFFFFFFF, info >> 32, addend


def link(machine: Machine, objects: Sequence[bytes]) -> dict[str, int]:
    """The addresses of the symbols that the objects export. AssertionError for a symbol or a relocation that is not known."""
    loaded = [_Object(machine, content, number) for number, content in enumerate(objects)]
    known = _functions(machine)
    for one in loaded:
        known |= {name: address for name, address, seen in one.symbols() if seen and address is not None}
    table, slots = machine.region("addresses of symbols", 4096, writable=False), 0
    for one in loaded:
        symbols = [(name, address) for name, address, _ in one.symbols()]
        for region, offset, kind, number, addend in one.relocations():
            name, address = symbols[number]
            value = known.get(name) if address is None else address
            assert value is not None, f"the object needs {name}"
            here = region.address + offset
            if kind in _TABLE:
                table.memory.view(np.uint64)[slots] = value
                value, slots = table.address + 8 * slots, slots + 1
            wide = kind in _ABSOLUTE | _RELATIVE_64
            assert wide or kind in _ABSOLUTE_32 | _RELATIVE | _TABLE, f"relocation {kind}"
            distance = value + addend - (0 if kind in _ABSOLUTE | _ABSOLUTE_32 else here)
            struct.pack_into("<q" if wide else "<i", region.memory, offset, distance)
    return known


def _functions(machine: Machine) -> dict[str, int]:
    place, found = machine.region("functions of the system", 4096, writable=False, executable=True), {}
    for n, (name, code) in enumerate(_FUNCTIONS.items()):
        content = bytes.fromhex(code)
        place.memory[64 * n : 64 * n + len(content)] = np.frombuffer(content, np.uint8)
        found[name] = place.address + 64 * n
    return found
