"""Core sets: what one timer on a CPU owns alone.

A set is made of whole physical cores, with all their hardware threads. Sets of one machine that are used at the same time
lie in different domains of the last cache, so that a neighbour's kernel cannot evict what another is timed on.

A claim is a lock on one small file for each core, held as long as the process lives: the kernel gives it back when that
process dies, however it dies. So two searches, or two nodes that are really one machine, never time on the same core.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from ...common.errors import EnvironmentFailure
from ...common.private import make_private_folder
from ...targets.host import cpu_list, online_cpus

_CPUS = Path("/sys/devices/system/cpu")

Core = tuple[int, ...]  # numbers of its logical processors


def usable_cpus() -> tuple[int, ...]:
    """Logical processors that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else online_cpus()


def domains(cpus: Iterable[int], folder: Path = _CPUS) -> list[list[Core]]:
    """The physical cores behind logical processors, grouped by the last cache that they share; in order of number."""
    allowed = set(cpus)
    cores: dict[Core, tuple[int, ...]] = {}
    for cpu in sorted(allowed):
        threads = _shared(folder / f"cpu{cpu}" / "topology" / "thread_siblings_list", cpu)
        caches = sorted((folder / f"cpu{cpu}" / "cache").glob("index*/shared_cpu_list"), key=_level)
        core = tuple(sorted(allowed.intersection(threads)))
        cores[core] = _shared(caches[-1], cpu) if caches else tuple(sorted(allowed))
    found: defaultdict[tuple[int, ...], list[Core]] = defaultdict(list)
    for core, domain in cores.items():
        found[domain].append(core)
    return list(found.values())


def _level(path: Path) -> int:
    return int(_shared(path.parent / "level", 0)[0])


def _shared(path: Path, otherwise: int) -> tuple[int, ...]:
    try:
        return cpu_list(path.read_text()) or (otherwise,)
    except (OSError, ValueError):
        return (otherwise,)


def core_sets(found: Sequence[Sequence[Core]], threads: int) -> list[list[Core]]:
    """Makes as many sets of `threads` cores as fit without two of them in one domain; empty when there are too few cores.

    A set that is larger than a domain takes whole domains, one after the other.
    """
    sets: list[list[Core]] = []
    filling: list[Core] = []
    for domain in found:
        filling += domain
        if len(filling) >= threads:
            sets.append(filling[:threads])
            filling = []
    return sets


def _make_own(folder: Path) -> None:
    """Makes the folder of the locks; where everybody may write, somebody else may have been there first."""
    make_private_folder(folder)
    if folder.lstat().st_uid != os.getuid():
        raise EnvironmentFailure(
            "the folder of the locks on cores belongs to another user",
            found=str(folder),
            advice="set TMPDIR to a folder of your own, or have that one removed",
        )


class Claim:
    """Cores that are this process's alone, until `release` or its end; its threads and children run nowhere else.

    Raises:
        EnvironmentFailure: fewer than `threads` cores are free.
    """

    def __init__(self, threads: int, folder: Path | None = None) -> None:
        place = folder or Path(tempfile.gettempdir()) / f"tilesmith-cores-{os.getuid()}"
        _make_own(place)
        self._before = os.sched_getaffinity(0)
        self._locks: dict[Core, IO[str]] = {}
        for wanted in self._choices(threads):
            self._take(place, wanted)
            if len(self._locks) == threads:
                break
            self.release()
        if not self._locks:
            raise EnvironmentFailure(
                "the cores of this machine are taken by other timers",
                expected=f"{threads} free of {len(usable_cpus())} logical processors",
                advice="wait for the other search, or use fewer threads",
            )
        os.sched_setaffinity(0, self.cpus)

    @staticmethod
    def _choices(threads: int) -> list[list[Core]]:
        """Sets to try: one for each domain first, then whatever is free."""
        found = domains(usable_cpus())
        every = [core for domain in found for core in domain]
        rest = [every[first : first + threads] for first in range(0, len(every) - threads + 1)]
        return core_sets(found, threads) + rest

    def _take(self, place: Path, cores: Sequence[Core]) -> None:
        for core in cores:
            name = place / f"core-{core[0]}"
            file = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return
            self._locks[core] = file

    @property
    def cpus(self) -> tuple[int, ...]:
        """The logical processors of the claimed cores."""
        return tuple(sorted(cpu for core in self._locks for cpu in core))

    def release(self) -> None:
        """Gives them back; safe to call twice."""
        for file in self._locks.values():
            file.close()
        self._locks.clear()
        os.sched_setaffinity(0, self._before)
