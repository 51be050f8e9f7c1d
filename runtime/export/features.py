"""C that asks a processor for the features of a target, by the names that LLVM has for them."""

from __future__ import annotations

from ...common.errors import TargetError
from ...targets.target import Target

# Register of CPUID, leaf, subleaf and bit (Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E).
_CPUID = {
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
# Which parts of a core's state the operating system must keep: bits of XCR0.
_AVX, _AVX512, _TILES = 0x6, 0xE6, 0x60000
# What Linux says in the auxiliary vector: which word, and which bit.
_AARCH64 = {
    "neon": ("AT_HWCAP", 1), "fullfp16": ("AT_HWCAP", 10), "dotprod": ("AT_HWCAP", 20),
    "i8mm": ("AT_HWCAP2", 13), "bf16": ("AT_HWCAP2", 14), "sve": ("AT_HWCAP", 22),
}  # fmt: skip
_RISCV = {letter: ("AT_HWCAP", ord(letter) - ord("a")) for letter in "mafdcv"}

HELPERS = {
    "x86": """
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
""",
    "aarch64": "#include <sys/auxv.h>\n",
    "riscv64": """
#include <sys/auxv.h>
static unsigned long vector_bytes(void) {
  unsigned long bytes;
  __asm__ volatile(".option push\\n.option arch, +v\\ncsrr %0, vlenb\\n.option pop" : "=r"(bytes));
  return bytes;
}
""",
}


def condition(target: Target) -> str:
    """A C expression that is not 0 where code for a target may run. Raises TargetError for what no C can ask."""
    ask = {"x86": _x86, "aarch64": _aarch64, "riscv64": _riscv64}.get(target.kind)
    if ask is None:
        raise TargetError("only code for processors becomes a library", found=target.text)
    return " && ".join(ask(target)) or "1"


def _unknown(target: Target, feature: str) -> TargetError:
    return TargetError(f"a library cannot ask the processor for {feature}", found=target.text)


def _x86(target: Target) -> list[str]:
    asked = []
    for feature in sorted(target.features):
        if feature not in _CPUID:
            raise _unknown(target, feature)
        register, leaf, subleaf, bit = _CPUID[feature]
        asked.append(f"cpuid_bit({leaf:#x}, {subleaf}, {'abcd'.index(register)}, {bit})")
    if "avx" in target.features:
        asked.append(f"state_is_kept({_AVX512 if 'avx512f' in target.features else _AVX:#x})")
    if "amx-tile" in target.features:
        asked += [f"state_is_kept({_TILES:#x})", "tiles_are_allowed()"]
    return asked


def _bits(target: Target, known: dict[str, tuple[str, int]], features: list[str]) -> list[str]:
    for feature in features:
        if feature not in known:
            raise _unknown(target, feature)
    return [f"(getauxval({known[feature][0]}) >> {known[feature][1]} & 1)" for feature in features]


def _aarch64(target: Target) -> list[str]:
    return _bits(target, _AARCH64, sorted(target.features))


def _riscv64(target: Target) -> list[str]:
    """Vector registers have at least 128 bits where there are any (`zvl128b`)."""
    lengths = [int(name[3:-1]) for name in target.features if name.startswith("zvl")]
    letters = sorted(name for name in target.features if not name.startswith("zvl"))
    return [*_bits(target, _RISCV, letters), *(f"vector_bytes() >= {bits // 8}" for bits in lengths)]
