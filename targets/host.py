"""What this machine is: from feature flags, the kernel's cache and core tables, and CPUID's vendor and family.

Never from the processor's name, which virtual machines get wrong. Where something cannot be known, the usual value of the
level stands, and the ceilings (which are measured) put it right.
"""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from functools import cache
from pathlib import Path

from ..common.errors import ArgumentError, TargetError
from ..common.given import whole_number
from ..common.outside import let_through
from .backend import Backend, Cache
from .isa import BACKENDS
from .machine import MACHINES, machine_kind
from .matrix_unit import allow_matrix_unit
from .target import MOST_THREADS, Target, parse_target

_CPUS = Path("/sys/devices/system/cpu")


@cache
def host_target() -> Target:
    """This machine as a target. Errors: TargetError on a machine that no kind describes."""
    return describe(host_kind(), host_features(), cpuid_identity())


def describe(kind: Backend, features: frozenset[str], identity: tuple[str, int]) -> Target:
    """The target with the highest level that `features` (LLVM names) hold; sizes come from this machine's tables."""
    levels = [level for level in kind.levels if level.features <= features]
    if not levels:
        raise TargetError(
            f"no level of {kind.name} fits this machine", expected=", ".join(sorted(kind.levels[0].features))
        )
    extensions = [name for name in kind.extensions if name in features and kind.allows(name, levels[-1])]
    target = parse_target("+".join([f"{kind.name}:{levels[-1].name}", *extensions]))
    cores = len(physical_cores(online_cpus())) or target.cores
    target = replace(target, cores=cores, caches=host_caches(cores) or target.caches, triple=_host_triple())
    return _with_ports(target, identity)


def _with_ports(target: Target, identity: tuple[str, int]) -> Target:
    """512-bit vectors take two passes through 256-bit units on AMD's family 25 (Zen 4): half of the usual ports."""
    if identity == ("AuthenticAMD", 25) and target.vector_bits == 512:
        return replace(target, fma_ports=1, load_ports=1, store_ports=1)
    return target


def host_kind() -> Backend:
    """The kind of this machine's processor. Errors: TargetError."""
    name = machine_kind()
    if not name:
        raise TargetError(f"unknown processor architecture {platform.machine()!r}", expected=", ".join(MACHINES))
    return BACKENDS[name]


@cache
def host_features() -> frozenset[str]:
    """LLVM names of all features that the processor has and the operating system allows."""
    from llvmlite import binding

    found = frozenset(name for name, present in binding.get_host_cpu_features().items() if present)
    matrix_unit = {name for name in found if name.startswith("amx-")}
    return found if not matrix_unit or allow_matrix_unit() else found - matrix_unit


def _host_triple() -> str:
    from llvmlite import binding

    return str(binding.get_process_triple())


def cpuid_identity(path: Path = Path("/proc/cpuinfo")) -> tuple[str, int]:
    """Vendor and family as CPUID tells them, which hypervisors pass on; ("", 0) where they cannot be read."""
    found: dict[str, str] = {}
    try:
        for line in path.read_text().splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip(), value.strip())
    except OSError as error:
        let_through(error)
        return "", 0
    family = found.get("cpu family", "")
    return found.get("vendor_id", ""), int(family) if family.isdecimal() else 0


def online_cpus() -> tuple[int, ...]:
    """Numbers of the logical processors that are switched on."""
    text = _read(_CPUS / "online")
    return cpu_list(text) if text else tuple(range(os.cpu_count() or 1))


def physical_cores(cpus: tuple[int, ...]) -> frozenset[tuple[str, ...]]:
    """The physical cores behind logical processors: hardware threads of one core count once."""
    found = set()
    for cpu in cpus:
        topology = _CPUS / f"cpu{cpu}" / "topology"
        place = _read(topology / "physical_package_id"), _read(topology / "core_id")
        found.add(place if all(place) else (str(cpu),))
    return frozenset(found)


def usable_processors() -> int:
    """Logical processors that this process may use by its affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else len(online_cpus())


def usable_cores() -> int:
    """Physical cores that this process may use: its affinity, and the share of time its container is allowed."""
    cpus = tuple(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else online_cpus()
    allowed = len(physical_cores(cpus))
    quota = _container_quota()
    return max(1, min(allowed, int(quota)) if quota else allowed)


def thread_count(threads: int | None, target: Target) -> int:
    """Says how many threads a person means: as given, or all cores of the target; a GPU's kernels are started by one.

    Errors: ArgumentError for less than one, and for what is no number.
    """
    if target.is_gpu:
        return 1
    if threads is None:
        return target.cores
    threads = whole_number(threads, "threads")
    if threads < 1:
        raise ArgumentError(f"{threads} threads can do nothing", expected="threads >= 1", found=str(threads))
    if threads > MOST_THREADS:
        raise ArgumentError("too many threads", expected=f"at most {MOST_THREADS}", found=str(threads))
    return threads


def _container_quota() -> float | None:
    """Processors' worth of time that control groups allow (version 2, then 1), or None without a limit."""
    limit, _, period = _read(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    if not limit:
        limit = _read(Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
        period = _read(Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
    return int(limit) / int(period) if limit.isdecimal() and period.isdecimal() and int(period) else None


def host_caches(cores: int) -> tuple[Cache, ...]:
    """Data caches from level 1 up, as the kernel tells them; empty where it does not."""
    caches: dict[int, Cache] = {}
    for folder in sorted(_CPUS.glob("cpu0/cache/index*")):
        level, size, line = _read(folder / "level"), _read(folder / "size"), _read(folder / "coherency_line_size")
        if _read(folder / "type") == "Instruction" or not (level.isdecimal() and size and line.isdecimal()):
            continue
        scale = {"K": 1024, "M": 1024 * 1024}.get(size[-1], 1)
        shared = physical_cores(cpu_list(_read(folder / "shared_cpu_list")) or (0,))
        caches[int(level)] = Cache(int(size.rstrip("KM")) * scale, int(line), min(len(shared), cores))
    return tuple(caches[level] for level in sorted(caches)[:3])


def cpu_list(text: str) -> tuple[int, ...]:
    """The numbers of the kernel's list form: "0-3,8" -> (0, 1, 2, 3, 8)."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def missing_here(target: Target) -> tuple[str, ...]:
    """Returns what this machine lacks to run code for `target`, in words; empty when it lacks nothing."""
    if target.is_gpu:
        return _missing_device(target)
    if target.kind != host_kind().name:
        return (f"a processor of kind {target.kind}",)
    return tuple(name for name in target.features if name not in host_features())


def _missing_device(target: Target) -> tuple[str, ...]:
    """Says what is missing to run code for a GPU: nothing when some device can run its architecture."""
    devices = target.backend.devices
    if not target.needs_device or devices is None or any(devices.runs(target.level, gpu) for gpu in devices.found()):
        return ()
    return (devices.missing(target.level),)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        let_through(error)
        return ""
