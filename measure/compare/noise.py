"""What machine a comparison ran on, and whether other work disturbed it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median, quantiles

from ..machine import machine_identity

_CALIBRATION_BYTES = 1 << 21
_LIBRARIES = ("numpy", "torch", "onnxruntime", "openvino", "halide", "llvmlite")


def describe() -> dict[str, object]:
    """Processor, cores, caches, system and library versions: what a reader needs to judge the figures."""
    identity: dict[str, object] = json.loads(machine_identity())
    versions = {name: _version(name) for name in _LIBRARIES}
    return {**identity, "system": platform.platform(), "python": platform.python_version(), "libraries": versions}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "-"


class MachineNoise:
    """`method.Noise` of Linux: processor time that went to others, and a fixed computation on as many threads.

    Others are the host (steal time) and every process but this one and the contenders. The computation is SHA-256 of a buffer
    that fits the second-level cache: it follows the clock and whoever shares the cores, and nothing else. Its reference is
    the median of the last nine, so that a slow drift of the machine is followed.

    Args:
        threads: of each contender.
        processes: ids of the contenders' processes.
    """

    def __init__(self, threads: int, processes: Sequence[int]) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._threads = threads
        self._processes = (os.getpid(), *processes)
        self._buffer = bytes(_CALIBRATION_BYTES)
        self._recent = deque((self._calibrate() for _ in range(9)), maxlen=9)
        self._begin = (0, 0)

    def start(self) -> None:
        """Begins a round."""
        self._begin = self._ticks()

    def stop(self) -> tuple[float, float]:
        """(share of the processor time since `start` that went to others, time of the computation against its reference)."""
        others, total = (now - before for now, before in zip(self._ticks(), self._begin, strict=True))
        time.sleep(0.02)  # idle teams of the contenders stop spinning
        seconds, reference = self._calibrate(), median(self._recent)
        self._recent.append(seconds)
        return max(0, others) / max(1, total), seconds / reference

    def _ticks(self) -> tuple[int, int]:
        """Clock ticks of all processors since boot: for others, and in all."""
        busy, idle = _all_ticks()
        return busy - sum(map(_process_ticks, self._processes)), busy + idle

    def _calibrate(self) -> float:
        """Median seconds until all threads have hashed the buffer."""
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            list(self._pool.map(hashlib.sha256, [self._buffer] * self._threads))
            times.append(time.perf_counter() - begin)
        return median(times)


class Others:
    """Tells how much of the processors went to others from now on: to the host, and to all but this process and its children.

    Children count once they have ended and been waited for.
    """

    def __init__(self) -> None:
        self._begin = self._now()

    def share(self) -> float:
        """Returns which part of the time of all processors went to others since it was made."""
        busy, idle, own = (now - then for now, then in zip(self._now(), self._begin, strict=True))
        return max(0.0, busy - own) / max(1.0, busy + idle)

    def _now(self) -> tuple[float, float, float]:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(one.ru_utime + one.ru_stime for one in used) * os.sysconf("SC_CLK_TCK")
        busy, idle = _all_ticks()
        return float(busy), float(idle), own


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Says how steady a machine is.

    `spread`: interquartile range of a fixed computation, of its median; `slowest`: of its times, in medians; `others`: what
    part of all processors went to others; `stolen`: to the host of a virtual machine alone.
    """

    spread: float
    slowest: float
    others: float
    stolen: float


def steadiness(seconds: float = 0.5) -> Steadiness:
    """Looks at this machine for so long, from one thread."""
    buffer = bytes(_CALIBRATION_BYTES // 4)
    times: list[float] = []
    others, stolen = Others(), _stolen()
    end = time.perf_counter() + seconds
    while len(times) < 8 or time.perf_counter() < end:
        begin = time.perf_counter()
        hashlib.sha256(buffer)
        times.append(time.perf_counter() - begin)
    middle = median(times)
    low, _, high = quantiles(times, n=4, method="inclusive")
    ticks = max(1.0, seconds * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1))
    return Steadiness((high - low) / middle, max(times) / middle, others.share(), (_stolen() - stolen) / ticks)


def _stolen() -> int:
    first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return int(first[8]) if len(first) > 8 else 0


def _all_ticks() -> tuple[int, int]:
    """Clock ticks of all processors since boot: busy (also for the host), and idle."""
    first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    user, nice, system, idle, wait, interrupts, soft, stolen = (int(f) for f in first.split()[1:9])
    return user + nice + system + interrupts + soft + stolen, idle + wait


def _process_ticks(process: int) -> int:
    """User and system time of a process with all its threads; the name in the second field may hold spaces."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
