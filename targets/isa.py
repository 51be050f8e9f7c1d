"""Instruction sets as data: the named levels that a target can have and the extensions on top of them.

A level is a bundle that processors have as a whole (x86-64-v3, Neon, ...), so that two machines which differ in features
that no kernel uses are one target. Only extensions that code generation may use are listed, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType

_K, _M = 1024, 1024 * 1024
WARP = 32  # threads of an NVIDIA GPU that run together


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of cache: size in bytes, line in bytes, and how many cores share one."""

    bytes: int
    line: int
    shared_by: int


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """Says what one multiprocessor of a GPU holds at a time, and what one block may have (CUDA C++ programming guide, table of
    compute capabilities). Memory in bytes; registers of 32 bits.

    products: operations that its matrix units do in a cycle on floats of 16 bits, a multiply-add counting two; never fewer
        than NVIDIA's figures for dense products.
    """

    shared: int
    registers: int
    threads: int
    blocks: int
    block_threads: int = 1024
    thread_registers: int = 255
    warp: int = WARP
    products: int = 2048


@dataclass(frozen=True, slots=True)
class Level:
    """A named bundle of features, and the sizes of a usual processor that has it.

    `features` are LLVM names, those of lower levels included. Ports count whole vectors of `vector_bits` per cycle and core.
    """

    name: str
    llvm_cpu: str
    features: frozenset[str]
    vector_bits: int
    vector_registers: int
    fma_ports: int
    load_ports: int
    store_ports: int
    cores: int
    caches: tuple[Cache, ...]
    has_masks: bool = False
    tuning: tuple[str, ...] = ()  # LLVM tuning flags, with their sign; not features of a machine
    gpu: Multiprocessor | None = None


@dataclass(frozen=True, slots=True)
class TargetKind:
    """A family of processors: its levels from lowest to highest, and what extensions each level may carry."""

    name: str
    triple: str
    levels: tuple[Level, ...]
    extensions: MappingProxyType[str, str] = field(default_factory=lambda: MappingProxyType({}))  # -> lowest level
    bundles: MappingProxyType[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def level(self, name: str) -> Level | None:
        """The level of this name, if there is one."""
        return next((level for level in self.levels if level.name == name), None)

    def allows(self, extension: str, level: Level) -> bool:
        """Says whether `level` may carry `extension`."""
        lowest = self.level(self.extensions.get(extension, ""))
        return lowest is not None and self.levels.index(level) >= self.levels.index(lowest)


_SSE2 = frozenset({"sse", "sse2"})
_AVX2 = _SSE2 | {
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe",
}  # fmt: skip
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def _caches(l1: int, l2: int, l3: int, cores: int, line: int = 64) -> tuple[Cache, ...]:
    return Cache(l1, line, 1), Cache(l2, line, 1), Cache(l3, line, cores)


X86 = TargetKind(
    "x86",
    "x86_64-unknown-linux-gnu",
    (
        Level("sse2", "x86-64", _SSE2, 128, 16, 1, 2, 1, 4, _caches(32 * _K, 256 * _K, 8 * _M, 4)),
        Level("avx2", "x86-64-v3", _AVX2, 256, 16, 2, 2, 1, 8, _caches(32 * _K, 512 * _K, 16 * _M, 8)),
        Level(
            "avx512", "x86-64-v4", _AVX512, 512, 32, 2, 2, 1, 16, _caches(32 * _K, _M, 32 * _M, 16), True,
            ("-prefer-256-bit",),  # LLVM's x86-64-v4 would rather not use the 512-bit registers that we ask for
        ),
    ),
    MappingProxyType({
        "avx512bf16": "avx512", "avx512fp16": "avx512", "avx512vbmi": "avx512", "avx512vnni": "avx512",
        "amx-tile": "avx512", "amx-int8": "avx512", "amx-bf16": "avx512", "amx-fp16": "avx512", "avxvnni": "avx2",
    }),
    MappingProxyType({"amx": ("amx-tile", "amx-int8", "amx-bf16")}),
)  # fmt: skip

AARCH64 = TargetKind(
    "aarch64",
    "aarch64-unknown-linux-gnu",
    (Level("neon", "generic", frozenset({"neon"}), 128, 32, 2, 2, 1, 16, _caches(64 * _K, _M, 32 * _M, 16)),),
    MappingProxyType({"bf16": "neon", "dotprod": "neon", "fullfp16": "neon", "i8mm": "neon"}),
)

_RVV = frozenset({"m", "a", "f", "d", "c", "v"})
RISCV64 = TargetKind(
    "riscv64",
    "riscv64-unknown-linux-gnu",
    (
        Level(
            "v", "generic-rv64", _RVV | {"zvl128b"}, 128, 32, 1, 1, 1, 4, _caches(32 * _K, 512 * _K, 4 * _M, 4), True
        ),
        Level(
            "v256", "generic-rv64", _RVV | {"zvl256b"}, 256, 32, 1, 1, 1, 4, _caches(32 * _K, 512 * _K, 4 * _M, 4), True
        ),
    ),
    MappingProxyType({"zvfh": "v"}),
)


def _sm(name: str, processors: int, l2: int, holds: Multiprocessor, cpu: str = "") -> Level:
    """A GPU architecture, seen as a machine whose vectors are warps: 32 lanes of 32 bits, 4 warps of FMA a cycle.

    One block may have the shared memory of a multiprocessor less 1 KB, which the driver keeps.
    """
    caches = Cache(holds.shared - _K, 128, 1), Cache(l2, 128, processors)
    return Level(name, cpu or name, frozenset(), 1024, 255, 4, 1, 1, processors, caches, has_masks=True, gpu=holds)


_REGISTERS = 65536
_AMPERE = Multiprocessor(164 * _K, _REGISTERS, 2048, 32)
_ADA = Multiprocessor(100 * _K, _REGISTERS, 1536, 24)
_HOPPER = Multiprocessor(228 * _K, _REGISTERS, 2048, 32, products=4096)
_BLACKWELL = Multiprocessor(228 * _K, _REGISTERS, 2048, 32, products=8192)

# First "cache": the shared memory that one block may have. Second: the L2 of the largest usual part.
CUDA = TargetKind(
    "cuda",
    "nvptx64-nvidia-cuda",
    (
        _sm("sm_70", 80, 6 * _M, Multiprocessor(97 * _K, _REGISTERS, 2048, 32)),
        _sm("sm_75", 40, 4 * _M, Multiprocessor(65 * _K, _REGISTERS, 1024, 16)),
        _sm("sm_80", 108, 40 * _M, _AMPERE),
        _sm("sm_86", 84, 6 * _M, Multiprocessor(100 * _K, _REGISTERS, 1536, 16)),
        _sm("sm_89", 128, 72 * _M, _ADA),
        _sm("sm_90", 132, 50 * _M, _HOPPER),
        _sm("sm_90a", 132, 50 * _M, _HOPPER),
        _sm("sm_100", 148, 126 * _M, _BLACKWELL),
        _sm("sm_100a", 148, 126 * _M, _BLACKWELL),
        _sm("sm_120", 170, 96 * _M, _ADA),
        _sm("sm_120a", 170, 96 * _M, _ADA),
        # what the emulator plays: an sm_80 with few multiprocessors, for tests without a GPU
        _sm("emulator", 4, _M, Multiprocessor(65 * _K, _REGISTERS, 2048, 32), cpu="sm_80"),
    ),
)

KINDS = MappingProxyType({kind.name: kind for kind in (X86, AARCH64, RISCV64, CUDA)})
