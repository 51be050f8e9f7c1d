"""Processors as C sees them: how a library asks for features, by the names that LLVM has for them, and what tools build it.

A feature is known by an expression that is not 0 where the processor has it and the operating system keeps its registers.
Sources: Intel SDM volume 2A (CPUID) and volume 1 (XCR0), AMD APM volume 3 appendix E; Linux, Documentation/arch (ELF hwcaps).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class InC:
    """A family of processors as C sees it.

    tools: the prefix of GNU's tools for it where they are cross tools; package: Debian's that has them.
    helpers: C that `asks` calls, after the headers of the system.
    asks: for each feature the expression.
    """

    tools: str
    package: str
    helpers: str
    asks: Mapping[str, str]


def _cpuid(register: str, leaf: int, subleaf: int, bit: int) -> str:
    return f"cpuid_bit({leaf:#x}, {subleaf}, {'abcd'.index(register)}, {bit})"


_X86_BITS = {
    "sse": ("d", 1, 0, 25), "sse2": ("d", 1, 0, 26), "sse3": ("c", 1, 0, 0), "ssse3": ("c", 1, 0, 9),
    "sse4.1": ("c", 1, 0, 19), "sse4.2": ("c", 1, 0, 20), "movbe": ("c", 1, 0, 22), "popcnt": ("c", 1, 0, 23),
    "avx": ("c", 1, 0, 28), "f16c": ("c", 1, 0, 29), "fma": ("c", 1, 0, 12), "avx2": ("b", 7, 0, 5),
    "bmi": ("b", 7, 0, 3), "bmi2": ("b", 7, 0, 8), "lzcnt": ("c", 0x80000001, 0, 5),
    "avx512f": ("b", 7, 0, 16), "avx512dq": ("b", 7, 0, 17), "avx512cd": ("b", 7, 0, 28),
    "avx512bw": ("b", 7, 0, 30), "avx512vl": ("b", 7, 0, 31), "avx512vbmi": ("c", 7, 0, 1),
    "avx512vnni": ("c", 7, 0, 11), "avx512fp16": ("d", 7, 0, 23), "avx512bf16": ("a", 7, 1, 5),
    "avxvnni": ("a", 7, 1, 4), "amx-bf16": ("d", 7, 0, 22), "amx-tile": ("d", 7, 0, 24),
    "amx-int8": ("d", 7, 0, 25), "amx-fp16": ("a", 7, 1, 21),
}  # fmt: skip
# What the operating system must keep of a core's state, as bits of XCR0, and allow.
_X86_STATE = {
    "avx": "state_is_kept(0x6)",
    "avx512f": "state_is_kept(0xe6)",
    "amx-tile": "state_is_kept(0x60000) && tiles_are_allowed()",
}
_X86_HELPERS = """
#include <cpuid.h>
static int cpuid_bit(unsigned leaf, unsigned subleaf, int place, unsigned bit) {
  unsigned found[4];
  if (!__get_cpuid_count(leaf, subleaf, &found[0], &found[1], &found[2], &found[3])) return 0;
  return found[place] >> bit & 1;
}
static int state_is_kept(unsigned wanted) {
  unsigned low, high;
  if (!cpuid_bit(1, 0, 2, 27)) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & wanted) == wanted;
}
static int tiles_are_allowed(void) { /* Linux wants to be asked for the state of the matrix unit */
  return !syscall(SYS_arch_prctl, 0x1023, 18);
}
"""

X86 = InC(
    "x86_64-linux-gnu-",
    "gcc-x86-64-linux-gnu",
    _X86_HELPERS,
    MappingProxyType({
        name: " && ".join([_cpuid(*place), *([_X86_STATE[name]] if name in _X86_STATE else [])])
        for name, place in _X86_BITS.items()
    }),
)  # fmt: skip


def _capability(word: str, bit: int) -> str:
    return f"(getauxval({word}) >> {bit} & 1)"


_AARCH64_HELPERS = """
#include <sys/auxv.h>
#include <sys/prctl.h>
static int sve_bytes(void) { /* of a register; Linux knows, and says no where there is no SVE */
  int length = prctl(51, 0, 0, 0, 0);
  return length < 0 ? 0 : length & 0xffff;
}
"""

AARCH64 = InC(
    "aarch64-linux-gnu-",
    "gcc-aarch64-linux-gnu",
    _AARCH64_HELPERS,
    MappingProxyType({
        "sve": _capability("AT_HWCAP", 22), "sve256": "sve_bytes() >= 32",
        "neon": _capability("AT_HWCAP", 1), "fullfp16": _capability("AT_HWCAP", 10),
        "dotprod": _capability("AT_HWCAP", 20), "i8mm": _capability("AT_HWCAP2", 13),
        "bf16": _capability("AT_HWCAP2", 14),
    }),
)  # fmt: skip

_RISCV_HELPERS = """
#include <sys/auxv.h>
#include <unistd.h>
static unsigned long vector_bytes(void) {
  unsigned long bytes;
  __asm__ volatile(".option push\\n.option arch, +v\\ncsrr %0, vlenb\\n.option pop" : "=r"(bytes));
  return bytes;
}
static int probed(unsigned long bit) { /* key 4 of hwprobe: extensions beyond single letters */
  struct { long long key; unsigned long long value; } pair = {4, 0};
  return !syscall(258, &pair, 1, 0, 0, 0) && pair.key == 4 && (pair.value & bit) != 0;
}
"""
RISCV64 = InC(
    "riscv64-linux-gnu-",
    "gcc-riscv64-linux-gnu",
    _RISCV_HELPERS,
    MappingProxyType(
        {letter: _capability("AT_HWCAP", ord(letter) - ord("a")) for letter in "mafdcv"}
        | {f"zvl{bits}b": f"vector_bytes() >= {bits // 8}" for bits in (128, 256)}
        | {"zvfh": "probed(1ul << 30)"}
    ),
)
