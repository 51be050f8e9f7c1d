"""ptxas, where it is installed: what it makes of a kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tilesmith.codegen.artifact import Artifact

PTXAS = shutil.which("ptxas")
_ENTRY = "Compiling entry function '"
_MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
_USED = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class Resources:
    """What one kernel needs: registers of a thread, and bytes of local memory and of spills."""

    kernel: str
    registers: int
    stack: int
    spills: int


def assembled(artifact: Artifact, architecture: str, folder: Path) -> tuple[Resources, ...]:
    """The kernels of an artifact as ptxas sees them. AssertionError with its message if it refuses them."""
    assert PTXAS is not None
    source, result = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_bytes(artifact.code)
    command = [PTXAS, "-v", f"-arch={architecture}", str(source), "-o", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + artifact.code.decode()
    return tuple(map(_resources, done.stderr.split(_ENTRY)[1:]))


def _resources(text: str) -> Resources:
    memory, used = _MEMORY.search(text), _USED.search(text)
    assert memory is not None, text
    assert used is not None, text
    return Resources(text.split("'", 1)[0], int(used[1]), int(memory[1]), int(memory[2]))
