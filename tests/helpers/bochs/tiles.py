"""Instructions on tiles (AMX), which the emulated processor does not have: played as Intel's manual says, one at a time.

Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TILERELEASE,
TDPBF16PS, TDPBSSD and its relatives; the numbers in brackets below are the opcodes of the map 0F38.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TILES, ROWS, ROW_BYTES = 8, 16, 64
_LARGEST = 11  # bytes of an instruction
_NAMES = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))
_NONE, _66, _F3, _F2 = range(4)  # prefixes
_BYTES = {_NONE: ("u1", "u1"), _66: ("u1", "i1"), _F3: ("i1", "u1"), _F2: ("i1", "i1")}  # of the products [5E]
Bytes = NDArray[np.uint8]
Memory = Callable[[int, int, bool], Bytes]  # address, size, whether it is written


class Refused(Exception):
    """What the unit answers by an invalid instruction, or a protection fault."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `reg` and `rm` are tiles where it has no address; `vvvv` is the third."""

    opcode: int
    prefix: int
    reg: int
    rm: int
    vvvv: int
    has_address: bool
    base: int | None
    index: int | None
    scale: int
    displacement: int
    size: int


def decode(code: bytes) -> Instruction | None:
    """The instruction that begins there, if it is one on tiles."""
    if len(code) < 5 or code[0] != 0xC4 or code[1] & 31 != 2 or code[3] not in (0x49, 0x4B, 0x5C, 0x5E):
        return None
    reg_high, index_high, base_high = (8 * (not code[1] >> bit & 1) for bit in (7, 6, 5))
    mode, reg, rm = code[4] >> 6, code[4] >> 3 & 7, code[4] & 7
    vvvv, prefix = ~code[2] >> 3 & 15, code[2] & 3
    if mode == 3:
        return Instruction(code[3], prefix, reg + reg_high, rm + base_high, vvvv, False, None, None, 1, 0, 5)
    at, base, index, scale = 5, rm + base_high, None, 1
    if rm == 4:
        scale, found, base = 1 << (code[5] >> 6), (code[5] >> 3 & 7) + index_high, (code[5] & 7) + base_high
        index, at = None if found == 4 else found, 6
    bare = mode == 0 and base & 7 == 5
    if bare and rm == 5:
        base = -1  # relative to the next instruction
    width = 4 if bare or mode == 2 else mode
    moved = int.from_bytes(code[at : at + width], "little", signed=True) if width else 0
    known = None if bare and base != -1 else base
    return Instruction(code[3], prefix, reg + reg_high, rm, vvvv, True, known, index, scale, moved, at + width)


def ended_by(code: bytes) -> Instruction | None:
    """The instruction on tiles that ends with these bytes."""
    found = [decode(code[-size:]) for size in range(5, min(_LARGEST, len(code)) + 1)]
    return next((one for size, one in enumerate(found, 5) if one is not None and one.size == size), None)


class Unit:
    """The state of the tiles, and what instructions do to it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rows: list[int] | None = None
        self._row_bytes: list[int] = []
        self._tiles = np.zeros((TILES, ROWS, ROW_BYTES), np.uint8)
        self.played: dict[str, int] = {}  # how often each kind of instruction was

    @property
    def is_free(self) -> bool:
        """Says whether the unit was given back."""
        return self._rows is None

    def play(self, one: Instruction, cpu: Any, following: int) -> None:
        """Does what one instruction does. Refused: it faults. `following`: the address behind it."""
        match one.opcode, one.prefix, one.has_address:
            case 0x49, 0, True:
                self._count("ldtilecfg")
                self._configure(self._memory(self._address(one, cpu, following), 64, False))
            case 0x49, 0, False if one.reg == 0:
                self._count("tilerelease")
                self._rows = None
            case 0x49, 3, False if one.rm == 0:
                self._count("tilezero")
                self._known(one.reg)
                self._tiles[one.reg] = 0
            case 0x4B, (1 | 2 | 3) as prefix, True:
                self._count("tilestored" if prefix == _F3 else "tileloadd")
                self._move(one, cpu, following)
            case ((0x5C | 0x5E), _, False):
                self._multiply(one)
            case _:
                raise Refused("no instruction on tiles that is known")

    def _count(self, name: str) -> None:
        self.played[name] = self.played.get(name, 0) + 1

    def _address(self, one: Instruction, cpu: Any, following: int) -> int:
        base = 0 if one.base is None else following if one.base == -1 else getattr(cpu, _NAMES[one.base])
        return int(base + one.displacement)

    def _configure(self, given: Bytes) -> None:
        rows, wide = given[48:56].tolist(), given[16:32].view(np.uint16).tolist()
        if given[0] == 0:
            self._rows = None
            return
        wrong = given[0] != 1 or np.any(given[2:16]) or np.any(given[32:48]) or np.any(given[56:])
        if (
            wrong
            or max(rows) > ROWS
            or max(wide) > ROW_BYTES
            or any(bool(r) != bool(w) for r, w in zip(rows, wide, strict=True))
        ):
            raise Refused("a configuration that the unit does not take")
        self._rows, self._row_bytes = rows, wide
        self._tiles[:] = 0

    def _known(self, tile: int) -> tuple[int, int]:
        """Rows of a tile, and bytes of each."""
        if self._rows is None or tile >= TILES or not self._rows[tile]:
            raise Refused(f"the tile {tile} has no shape")
        return self._rows[tile], self._row_bytes[tile]

    def _move(self, one: Instruction, cpu: Any, following: int) -> None:
        rows, wide = self._known(one.reg)
        start = self._address(one, cpu, following)
        pitch = 0 if one.index is None else getattr(cpu, _NAMES[one.index]) * one.scale
        pitch = (pitch + (1 << 63)) % (1 << 64) - (1 << 63)
        stores = one.prefix == _F3
        if not stores:
            self._tiles[one.reg] = 0
        for row in range(rows):
            place = self._memory(start + row * pitch, wide, stores)
            if stores:
                place[:] = self._tiles[one.reg, row, :wide]
            else:
                self._tiles[one.reg, row, :wide] = place

    def _multiply(self, one: Instruction) -> None:
        total, x, y = one.reg, one.rm, one.vvvv
        (rows, wide), (left_rows, deep), (right_rows, right_wide) = map(self._known, (total, x, y))
        if len({total, x, y}) < 3 or wide % 4 or deep % 4:
            raise Refused("tiles that are the same, or no words")
        if left_rows != rows or right_rows != deep // 4 or right_wide != wide:
            raise Refused("tiles whose shapes do not fit")
        left, right = self._tiles[x, :rows, :deep], self._tiles[y, :right_rows, :wide]
        sums = self._tiles[total, :rows, :wide].copy()
        if one.opcode == 0x5C:
            if one.prefix != _F3:
                raise Refused("no product of bfloat16")
            self._count("tdpbf16ps")
            result = _bf16(sums.view(np.float32), left, right).view(np.uint8)
        else:
            a, b = _BYTES[one.prefix]
            self._count(f"tdpb {a} {b}")
            shape = (rows, deep), (right_rows, wide // 4, 4)
            terms = left.copy().view(a).astype(np.int64).reshape(shape[0])
            others = right.copy().view(b).astype(np.int64).reshape(shape[1]).transpose(0, 2, 1).reshape(deep, -1)
            added = sums.view(np.int32).astype(np.int64) + terms @ others
            result = added.astype(np.int32).view(np.uint8)  # modulo 2^32
        self._tiles[total] = 0
        self._tiles[total, :rows, :wide] = result


def _bf16(sums: NDArray[np.float32], left: Bytes, right: Bytes) -> NDArray[np.float32]:
    """Sums of even and of odd elements of the depth apart, each rounded to the nearest; subnormal numbers are zero."""

    def wide(halves: Bytes) -> NDArray[np.float32]:
        bits = halves.copy().view(np.uint16).astype(np.uint32) << 16
        return _flushed(bits.view(np.float32))

    x, y = wide(left).astype(np.float64), wide(right).astype(np.float64)
    rows, words, columns = len(x), len(y), y.shape[1] // 2
    with np.errstate(all="ignore"):
        products = x.reshape(rows, words, 1, 2).swapaxes(0, 1) * y.reshape(words, 1, columns, 2)  # exact in float64
        sizes = np.abs(products)
        # Else all sums are multiples of a normal number. (A product has 16 bits.)
        has_small = bool(np.any((sizes < 2.0**-100) & (sizes > 0)))
        parts = np.zeros((rows, columns, 2), np.float32)
        for product in products:
            parts = (parts + product).astype(np.float32)
            parts = _flushed(parts) if has_small else parts
        return _flushed(_flushed(sums) + _flushed(parts[..., 0] + parts[..., 1]))


def _flushed(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The values, zero instead of subnormal ones; signs stay."""
    small = np.abs(values) < np.float32(2.0**-126)
    return np.where(small, np.copysign(np.float32(0), values), values) if small.any() else values
