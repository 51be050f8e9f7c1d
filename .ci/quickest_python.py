"""Prints which Python `make` builds its environment on where nobody names one: that which runs this file, or one of the same
version that is installed beside it and is clearly quicker.

Pythons of one version differ: without the compiler's profiles, as version managers build them, one takes 1.4 times as long for
the same work as the system's, and so do compiles, searches and tests. Not all of them tell how they were built: each works for
a moment here. What an active environment has chosen is not questioned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

CLEARLY = 1.15  # times as quick: less may be noise of a busy machine
CHOICES = ("VIRTUAL_ENV", "CONDA_PREFIX")  # variables by which a person has chosen
BESIDE = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")

# Small frozen objects are made, hashed and looked up, as the product does most. Without ensurepip no environment is made.
TRIAL = """
import ensurepip, json, platform, sys, sysconfig, time, venv
from dataclasses import dataclass

@dataclass(frozen=True)
class Pair:
    first: int
    second: str

def seconds():
    started = time.process_time()
    found = {Pair(number, str(number)): [one for one in (number, "") if isinstance(one, int)] for number in range(8000)}
    assert sum(len(found[Pair(number, str(number))]) for number in range(8000)) == 8000
    return time.process_time() - started

kind = platform.python_implementation(), *sys.version_info[:2], sysconfig.get_platform(), getattr(sys, "abiflags", "")
print(json.dumps([list(kind), min(seconds() for _ in range(5))]))
"""


def quickest(own: str, folders: Iterable[str]) -> str:
    """Returns `own`, or the quickest of its kind in these folders, if that is clearly quicker."""
    kind, seconds = _tried(own)
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    best, least = own, seconds / CLEARLY
    for other in dict.fromkeys(os.path.realpath(Path(folder) / name) for folder in folders):
        found, needed = _tried(other) if other != os.path.realpath(own) else (kind, seconds)
        if found == kind and needed < least:
            best, least = other, needed
    return best


def _tried(python: str) -> tuple[list[object], float]:
    """Its kind, and the processor seconds that it takes; no kind where it does not run."""
    try:
        done = subprocess.run([python, "-I", "-c", TRIAL], capture_output=True, check=True, timeout=60)
        kind, seconds = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return [], 0.0
    return kind, seconds


def main(environment: Mapping[str, str]) -> None:
    """Prints the path, and says on stderr if it is another than a person would expect."""
    chosen = any(environment.get(name) for name in CHOICES)
    folders = () if chosen else (*environment.get("PATH", "").split(os.pathsep), *BESIDE)
    python = quickest(sys.executable, folders) if folders else sys.executable
    if python != sys.executable:
        print(
            f"{python} is clearly quicker than {sys.executable}, of the same version, and is used in its place "
            "(make PYTHON=python3 takes the other)",
            file=sys.stderr,
        )
    print(python)


if __name__ == "__main__":
    main(os.environ)
