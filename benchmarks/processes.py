"""How much processor time each process of a command takes, and between which seconds it lived.

    python benchmarks/processes.py tune run matmul m=512 n=512 k=512 --trials 64 --db /tmp/new.sqlite

Linux tells both in /proc, which is looked at twenty times a second: what lives for less is not seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.05


@dataclass
class Lived:
    """A process: its name (of children of a search their role), when it was first and last seen, its processor seconds."""

    name: str
    first: float
    last: float = 0.0
    spent: float = 0.0


def look(root: int, seen: dict[int, Lived], now: float) -> None:
    """Notes what the process `root` and those below it have taken so far."""
    told: dict[int, tuple[str, int, float]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, rest = place.read_text().rpartition(")")
            fields = rest.split()
            spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            told[int(place.parent.name)] = (head.partition("(")[2], int(fields[1]), spent)
    for process, (name, _, spent) in told.items():
        above = process
        while above in told and above != root:
            above = told[above][1]
        if above == root:
            one = seen.setdefault(process, Lived(name, now))
            one.name, one.last, one.spent = name, now, spent


def main(words: list[str]) -> None:
    """Runs the command, and tells."""
    begin, seen = time.monotonic(), dict[int, Lived]()
    process = subprocess.Popen(words)
    while process.poll() is None:
        look(process.pid, seen, time.monotonic() - begin)
        time.sleep(_EVERY)
    print(
        f"{time.monotonic() - begin:.1f} s by the clock, {sum(one.spent for one in seen.values()):.1f} s of processors"
    )
    for one in seen.values():
        print(f"  {one.name:16} {one.spent:6.2f} s, from {one.first:.1f} to {one.last:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
