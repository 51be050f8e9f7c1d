"""The backends, each a description that the rest reads (backend.py): processors here, GPUs in folders of their own.

Only extensions that code generation may use are listed: two machines which differ in features that no kernel uses are one
target.
"""

from __future__ import annotations

from types import MappingProxyType

from . import in_c
from .amdgpu.backend import AMDGPU
from .backend import FUSED, HALF_ARITHMETIC, HALF_CONVERSIONS, MERGED_EXTREMA, ROUNDING, Backend, Cache, Level
from .cuda.backend import CUDA

_K, _M = 1024, 1024 * 1024

_SSE2 = frozenset({"sse", "sse2"})
_AVX2 = _SSE2 | {
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe",
}  # fmt: skip
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def _caches(l1: int, l2: int, l3: int, cores: int, line: int = 64) -> tuple[Cache, ...]:
    return Cache(l1, line, 1), Cache(l2, line, 1), Cache(l3, line, cores)


X86 = Backend(
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
    MappingProxyType({
        FUSED: frozenset({"fma", "avx512f"}), ROUNDING: frozenset({"sse4.1"}), HALF_CONVERSIONS: frozenset({"f16c"}),
        HALF_ARITHMETIC: frozenset({"avx512fp16"}), MERGED_EXTREMA: frozenset({"avx512f"}),
    }),
    store_fence="llvm.x86.sse.sfence",
    vector_constraint="v",
    in_c=in_c.X86,
)  # fmt: skip

_SVE = frozenset({"neon", "sve"})
AARCH64 = Backend(
    "aarch64",
    "aarch64-unknown-linux-gnu",
    (
        Level("neon", "generic", frozenset({"neon"}), 128, 32, 2, 2, 1, 16, _caches(64 * _K, _M, 32 * _M, 16)),
        Level("sve", "generic", _SVE, 128, 32, 2, 2, 1, 16, _caches(64 * _K, _M, 32 * _M, 16)),
        Level(
            "sve256",
            "generic",
            _SVE | {"sve256"},
            256,
            32,
            2,
            2,
            1,
            16,
            _caches(64 * _K, _M, 32 * _M, 16),
            True,
            length="sve256",
            attributes="vscale_range(2,16)",  # registers of 2 to 16 times 128 bits
        ),
    ),
    MappingProxyType({"bf16": "neon", "dotprod": "neon", "fullfp16": "neon", "i8mm": "neon"}),
    capabilities=MappingProxyType({HALF_ARITHMETIC: frozenset({"fullfp16"})}),
    in_c=in_c.AARCH64,
)

_RVV = frozenset({"m", "a", "f", "d", "c", "v"})
RISCV64 = Backend(
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
    capabilities=MappingProxyType({HALF_ARITHMETIC: frozenset({"zvfh"})}),
    in_c=in_c.RISCV64,
)


BACKENDS = MappingProxyType({one.name: one for one in (X86, AARCH64, RISCV64, CUDA, AMDGPU)})
