"""The table of matrix instructions: what each multiplies, in which shapes and layouts, and which processors have it.

    sum[m, n] += sum[k](a[m, k] * b[k, n])

An instruction takes its operands in *words* of 32 bits: `group` elements of the depth k that lie side by side. So `a` is m rows
of k / group words, and `b` is k / group rows of n words.

    TILES      sums and operands lie in registers of the unit's own, one row of a tile after the other
    VECTORS    m is 1: `a` is one word for all lanes, `b` and the sums are vectors of n lanes

Rules, regions, plans, lowering and cost model read this table; how an instruction is written stands in `codegen/emit` alone.
A name is part of stored sketches and never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

WORD_BITS = 32
DOTS = "_dots"  # behind the names of two element types: sums of their products


class InstructionScope(Enum):
    """Says where the sums of an instruction live while it adds to them."""

    TILES = "tiles"
    VECTORS = "vectors"


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """One row of the table.

    Args:
        name: as sketches say it.
        m, n, k: the shape of one instruction.
        a, b, sum: names of the element types.
        group: elements of the depth in a word.
        scope: where the sums live.
        features: what a processor needs to have, in LLVM's names.
        vector_bits: of the vectors that go with it: those that finish a row of sums are as wide as the row.
        registers: of the unit, for sums and operands together; 0 where these are vector registers.
        cycles: from one instruction to the next one that needs nothing of it, on one unit or port.
        latency: cycles until another one may add to the same sums.
        example: the text of a target that has it.
        adds: whether it adds to the sums; else an addition of vectors does so after it.
        slower: a feature, and the cycles that it takes on processors which have that one too.
    """

    name: str
    m: int
    n: int
    k: int
    a: str
    b: str
    sum: str
    group: int
    scope: InstructionScope
    features: frozenset[str]
    vector_bits: int
    registers: int
    cycles: float
    latency: float
    example: str
    adds: bool = True
    slower: tuple[str, float] | None = None

    @property
    def kind(self) -> str:
        """The name of its speed in ceilings: what it multiplies and sums; nothing of who does it."""
        return products_of(self.a, self.b)

    @property
    def words(self) -> int:
        """Words of the depth."""
        return self.k // self.group

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of words of `a`."""
        return self.words * WORD_BITS // 8

    @property
    def operations(self) -> int:
        """Products and sums of one instruction."""
        return 2 * self.m * self.n * self.k

    @property
    def speed(self) -> float:
        """Operations in a cycle, on one unit or port."""
        return self.operations / self.cycles

    def fits(self, features: Set[str], vector_bits: int) -> bool:
        """Says whether a processor of these features and vectors has it."""
        return self.features <= features and self.vector_bits == vector_bits

    def on(self, features: Set[str]) -> MatrixInstruction:
        """Returns the row as it is on a processor of these features."""
        feature, cycles = self.slower or ("", self.cycles)
        return replace(self, cycles=cycles) if feature in features else self


_TILES = InstructionScope.TILES

# One product for each row of a tile in turn, 16 cycles; a sum is there after 52 (Sapphire Rapids).
BF16_TILES = MatrixInstruction(
    "amx_bf16",
    16,
    16,
    32,
    "bf16",
    "bf16",
    "f32",
    2,
    _TILES,
    frozenset({"amx-bf16"}),
    512,
    8,
    16.0,
    52.0,
    "x86:avx512+amx",
)


# The same of bytes, with a sign or without, of twice the depth in as many cycles.
BYTE_TILES = tuple(
    replace(BF16_TILES, name=f"amx_{a}_{b}", a=a, b=b, sum="i32", group=4, k=64, features=frozenset({"amx-int8"}))
    for a in ("u8", "i8")
    for b in ("i8", "u8")
)


def _vectors(
    name: str, a: str, b: str, sum: str, group: int, feature: str, bits: int, latency: float, level: str
) -> MatrixInstruction:
    """A row of a dot of words in vectors; two ports take one each in a cycle."""
    lanes = bits // WORD_BITS
    example = f"x86:{level}+{feature};vector={bits}"
    features = frozenset({feature, "avx512vl"} if level == "avx512" else {feature})
    return MatrixInstruction(
        f"{name}_{feature}_{bits}", 1, lanes, group, a, b, sum, group, InstructionScope.VECTORS, features, bits, 0, 1.0,
        latency, example,
    )  # fmt: skip


_VNNI = tuple(
    _vectors(name, a, b, "i32", group, feature, bits, 4.0, level)
    for feature, bits, level in (("avx512vnni", 512, "avx512"), ("avx512vnni", 256, "avx512"), ("avxvnni", 256, "avx2"))
    for name, a, b, group in (("vpdpbusd", "u8", "i8", 4), ("vpdpwssd", "i16", "i16", 2))
)
# What each level of x86 has: a sum of two products, and an addition, for which there are more ports, and which alone the next
# addition waits for.
_MADD = tuple(
    replace(
        _vectors("vpmaddwd", "i16", "i16", "i32", 2, feature, bits, 1.0, level),
        adds=False,
        example=f"x86:{level};vector={bits}",
    )
    for feature, bits, level in (("avx512bw", 512, "avx512"), ("avx2", 256, "avx2"), ("sse2", 128, "sse2"))
)
# Two instructions: sums of two products of bytes, cut to halves, which hold those of bytes with a sign up to 64; and sums of
# two of these, with an addition behind.
_MADD_BYTES = tuple(
    replace(
        _vectors("vpmaddubsw", "u8", "i7", "i32", 4, feature, bits, 1.0, level),
        adds=False,
        cycles=2.0,
        example=f"x86:{level};vector={bits}",
    )
    for feature, bits, level in (("avx512bw", 512, "avx512"), ("avx2", 256, "avx2"))
)
# One in two cycles for both ports together where a matrix unit is beside them, as Intel has it (0.54 ns where a fused
# multiply-add takes 0.13): half as many products as these do. Two in a cycle else, as AMD has it.
_BF16 = tuple(
    replace(
        _vectors("vdpbf16ps", "bf16", "bf16", "f32", 2, "avx512bf16", bits, 6.0, "avx512"), slower=("amx-tile", 4.0)
    )
    for bits in (512, 256)
)

_ALL = (BF16_TILES, *BYTE_TILES, *_VNNI, *_MADD, *_MADD_BYTES, *_BF16)
MATRIX_INSTRUCTIONS = MappingProxyType({row.name: row for row in _ALL})


def products_of(a: str, b: str) -> str:
    """The name, in counts of operations and in ceilings, of sums of products of elements of two narrow types."""
    return f"{a}_{b}{DOTS}"


def sum_of(kind: str) -> str:
    """The type that sums of a kind have: that of `products_of`, or of a type by itself."""
    return next((row.sum for row in MATRIX_INSTRUCTIONS.values() if row.kind == kind), kind)


def instructions_of(features: Set[str], vector_bits: int) -> tuple[MatrixInstruction, ...]:
    """The rows that a processor has, in the order of the table; of those that multiply the same, the first one."""
    found: dict[tuple[InstructionScope, str, str], MatrixInstruction] = {}
    for row in MATRIX_INSTRUCTIONS.values():
        if row.fits(features, vector_bits):
            found.setdefault((row.scope, row.a, row.b), row.on(features))
    return tuple(found.values())


def vector_instruction(rows: Iterable[MatrixInstruction], a: str, b: str) -> MatrixInstruction | None:
    """The first of some rows that multiplies vectors of words of these element types."""
    fits = (row for row in rows if row.scope is InstructionScope.VECTORS and (row.a, row.b) == (a, b))
    return next(fits, None)


def tile_instruction(rows: Iterable[MatrixInstruction], a: str, b: str) -> MatrixInstruction | None:
    """The first of some rows that multiplies tiles of words of these element types: rows of `a`, columns of `b`."""
    fits = (row for row in rows if row.scope is InstructionScope.TILES and (row.a, row.b) == (a, b))
    return next(fits, None)


def unit_of(rows: Iterable[MatrixInstruction]) -> MatrixInstruction | None:
    """The first of some rows whose sums live in tiles."""
    return next((row for row in rows if row.scope is InstructionScope.TILES), None)
