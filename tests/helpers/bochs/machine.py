"""A processor of its own memory, in long mode: regions with nothing around them, and calls that end at the first fault.

Each region begins at a page of its own, and many pages that are not there follow. Addresses are the same before and after
translation. The processor has AVX-512; it stops at instructions on tiles (AMX), which are played then (tiles.py).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helpers.bochs.package import bochs
from helpers.bochs.tiles import Refused, Unit, ended_by

Bytes = NDArray[np.uint8]
PAGE = 4096
GAP = 64 * PAGE  # around each region: more than a tile reaches with any pitch that tests have
RETURN = 0x7000_0000  # where calls return to: nothing is there
_START = 0x1000_0000
_TABLES = 0x10_0000  # where page tables begin
_STACK = 1 << 20
_PRESENT, _WRITE, _NO_EXECUTE = 1, 2, 1 << 63
_POINTERS = ("rdi", "rsi", "rdx", "rcx")  # arguments of the calling convention of System V

_CR0 = 0x8001_0033  # paging, write protection, protected mode, no emulation of floats
_CR4 = 0x4_0620  # 64-bit page tables, SSE and its exceptions, XSAVE
_EFER = 0xD00  # long mode, pages that are not code
_XCR0 = 0x6_00E7  # x87, SSE, AVX, AVX-512, tiles
_INVALID, _PAGE_FAULT = 6, 14
_LONGEST = 15  # bytes of an instruction
_FAULTS = {
    0: "division",
    6: "invalid instruction",
    7: "no device",
    12: "stack",
    13: "protection",
    14: "page fault",
    19: "float",
}


class Fault(Exception):
    """Something that a processor refuses."""


@dataclass(frozen=True, slots=True)
class Region:
    """Memory at an address, whole pages of it. `name`: for faults."""

    name: str
    address: int
    memory: Bytes
    flags: int


class Machine:
    """Holds regions. Used as a context, which gives the memory back."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self._end = _START
        self._pages: list[int] = []
        self.played: dict[str, int] = {}  # the instructions on tiles of the last call, counted

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        for page in self._pages:
            bochs().memory.page_remove(page)

    def region(self, name: str, size: int, writable: bool = True, executable: bool = False) -> Region:
        """New zeroed memory, rounded up to pages."""
        whole = max(1, -(-size // PAGE)) * PAGE
        flags = _PRESENT | (_WRITE if writable else 0) | (0 if executable else _NO_EXECUTE)
        made = Region(name, self._end, _memory(whole), flags)
        self.regions.append(made)
        self._end += whole + GAP
        return made

    def call(self, entry: int, *pointers: int) -> None:
        """Calls a function. Fault: it did something other than to return."""
        stack = self.region("stack", _STACK)
        top = stack.address + _STACK - 8
        stack.memory[-8:].view(np.uint64)[0] = RETURN
        state = self._state()
        state.rip, state.rsp = entry, top
        for register, value in zip(_POINTERS, pointers, strict=False):
            setattr(state, register, value)
        unit, self._last = Unit(self._at), stack
        _run(state, partial(self._resume, unit))
        self.played = unit.played
        if not unit.is_free:
            raise Fault("the matrix unit was not given back")

    def _resume(self, unit: Unit, vector: int, error: int, cpu: Any) -> bool:
        """Plays an instruction on tiles, and says whether the call goes on. Fault: something else stopped it."""
        instruction = cpu.rip
        if vector == _PAGE_FAULT and instruction == RETURN:
            return False
        tiles = ended_by(self._code(instruction, before=_LONGEST)) if vector == _INVALID else None
        if tiles is None:
            raise Fault(self._in_words(vector, error, instruction, cpu.cr2))
        try:
            unit.play(tiles, cpu, instruction)
        except Refused as refused:
            raise Fault(f"{refused}, by the instruction before {self._place(instruction)}") from refused
        return True

    def _at(self, address: int, size: int, written: bool) -> Bytes:
        """Memory as an instruction on tiles sees it. Fault: some of it is not there, or must not be written."""
        for region in (self._last, *self.regions):  # rows of one tile lie together
            start = address - region.address
            if start >= 0 and start + size <= len(region.memory) and (region.flags & _WRITE or not written):
                self._last = region
                return region.memory[start : start + size]
        raise Fault(
            f"page fault, {'writing' if written else 'reading'} {size} bytes of a tile at {self._place(address)}"
        )

    def _state(self) -> Any:
        core = bochs()
        state = core.State()
        state.cr0, state.cr4, state.efer, state.xcr0 = _CR0, _CR4, _EFER, _XCR0
        state.mxcsr, state.mxcsr_mask, state.fpcw, state.rflags = 0x1F80, 0xFFBF, 0x37F, 2
        state.cr3 = self._map()
        state.cs = _segment(0x33, 0xA0FB)
        state.ss = state.ds = state.es = state.fs = state.gs = _segment(0x2B, 0xC0F3)
        return state

    def _map(self) -> int:
        """Gives all regions to the processor. Returns the address of new page tables."""
        tables: list[NDArray[np.uint64]] = []

        def table() -> int:
            tables.append(_memory(PAGE).view(np.uint64))
            return len(tables) - 1

        table()
        below: dict[tuple[int, int], int] = {}
        for region in self.regions:
            for page in range(region.address, region.address + len(region.memory), PAGE):
                at = 0
                for shift in (39, 30, 21):
                    key = at, page >> shift & 511
                    if key not in below:
                        below[key] = table()
                        tables[at][key[1]] = _TABLES + below[key] * PAGE | 7
                    at = below[key]
                tables[at][page >> 12 & 511] = page | region.flags | 4
                self._insert(page, region.memory.ctypes.data + page - region.address)
        self._tables = tables
        for number, one in enumerate(tables):
            self._insert(_TABLES + number * PAGE, one.ctypes.data)
        return _TABLES

    def _insert(self, page: int, host: int) -> None:
        bochs().memory.page_insert(page, host)
        self._pages.append(page)

    def _in_words(self, vector: int, error: int, instruction: int, address: int) -> str:
        what = _FAULTS.get(vector, f"fault {vector}")
        if vector == _PAGE_FAULT:
            doing = "running" if error & 16 else "writing" if error & 2 else "reading"
            what += f", {doing} {self._place(address)}"
        return f"{what}, by the instruction at {self._place(instruction)}: {self._code(instruction, 8, 15).hex(' ')}"

    def _place(self, address: int) -> str:
        before = [region for region in self.regions if region.address <= address + GAP // 2]
        if not before:
            return f"{address:#x}"
        near = before[-1]
        return f"{address:#x}, {near.name} {address - near.address:+#x} of {len(near.memory):#x}"

    def _code(self, address: int, before: int = 0, behind: int = 0) -> bytes:
        for region in self.regions:
            start = address - region.address
            if 0 <= start <= len(region.memory):
                return region.memory[max(0, start - before) : start + behind].tobytes()
        return b""


def _run(state: Any, resume: Callable[[int, int, Any], bool]) -> None:
    """Runs until a fault after which `resume` does not go on. Neither session nor hook may live on: the package ends badly
    with them."""
    core = bochs()
    session, hook = core.Session(), core.Hook()
    ends: list[tuple[int, int]] = []

    def fault(running: Any, _: int, vector: int, error: int) -> None:
        ends.append((vector, error))
        running.stop()

    def missing(page: int) -> None:
        raise Fault(f"the physical page {page:#x} is not there")

    session.missing_page_handler = missing
    session.cpu.state = state
    hook.exception = fault
    cpu = session.cpu
    session.run([hook])
    while resume(*ends[-1], cpu):
        session.run([hook])


def _segment(selector: int, attributes: int) -> Any:
    segment = bochs().Segment()
    segment.present, segment.selector, segment.base = True, selector, 0
    segment.limit, segment.attr = 0xFFFFFFFF, attributes
    return segment


def _memory(size: int) -> Bytes:
    """Zeroed memory that begins at a page."""
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)
