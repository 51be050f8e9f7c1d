"""Whether the system has ended processes for want of memory: what tells a child that asked for too much from one that was shot.

The kernel counts such ends for the whole system (/proc/vmstat) and for each control group (memory.events, memory.oom_control).
A count that rose while a child lived is evidence against it; where nothing is counted, there is none.
"""

from __future__ import annotations

from pathlib import Path

_VMSTAT = Path("/proc/vmstat")
_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def memory_kills(vmstat: Path = _VMSTAT, own: Path = _OWN, groups: Path = _GROUPS) -> int:
    """Says how many processes have been ended so far; 0 where nobody counts."""
    return max(_count(place) for place in (vmstat, *_group_files(own, groups)))


def _group_files(own: Path, groups: Path) -> list[Path]:
    """Says where this process's groups count: version 2 and version 1, seen from inside of a container or from outside."""
    found = [groups / "memory.events", groups / "memory" / "memory.oom_control"]
    for line in _text(own).splitlines():
        number, names, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":
            found.append(groups / path.lstrip("/") / "memory.events")
        elif "memory" in names.split(","):
            found.append(groups / "memory" / path.lstrip("/") / "memory.oom_control")
    return found


def _count(place: Path) -> int:
    for line in _text(place).splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.strip().isdecimal():
            return int(count)
    return 0


def _text(place: Path) -> str:
    try:
        return place.read_text()
    except (OSError, ValueError):
        return ""
