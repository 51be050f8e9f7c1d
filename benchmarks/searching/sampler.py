"""Looks every few milliseconds whether any child of a process is at work but the one in which a search thinks:
python sampler.py PID, ended by a signal.

Prints how many looks there were, and in how many no child was running: nothing was compiled, checked or timed then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PERIOD = 0.01
THINKER = "(Thinker"  # tilesmith.tuner.thinking.thinker
RENEWED = 5  # looks between two counts of the children: they are replaced now and then


def sample(pid: int) -> dict[str, int]:
    """Samples until a signal comes, and returns the counts of both."""
    with suppress(OSError):  # where that is allowed: on a busy machine it would mostly look when a processor is free
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    looks = idle = 0
    own = Path("/proc/self").resolve().name
    found: list[Path] = []
    while not ended and Path(f"/proc/{pid}").exists():
        if looks % RENEWED == 0:
            listed = (p for one in Path(f"/proc/{pid}/task").glob("*/children") for p in one.read_text().split())
            found = [Path(f"/proc/{child}/stat") for child in listed if child != own]
        looks += 1
        idle += not any(map(runs, found))
        time.sleep(PERIOD)
    return {"looks": looks, "idle": idle}


def runs(stat: Path) -> bool:
    """Says whether a process other than the thinker is running or waits for a processor or a disk."""
    try:
        name, _, state = stat.read_text(encoding="utf-8").rpartition(")")
        return not name.endswith(THINKER) and state.split()[0] in "RD"
    except (OSError, IndexError):
        return False


if __name__ == "__main__":
    print(json.dumps(sample(int(sys.argv[1]))), flush=True)
