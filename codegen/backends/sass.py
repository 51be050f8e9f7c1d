"""What NVIDIA's assembler makes of PTX: SASS, the machine code, where ptxas and a disassembler are installed.

They are looked for on PATH and in NVIDIA's wheels (nvidia-cuda-nvcc, nvidia-cuda-nvdisasm); neither is needed to compile or to
run, since the driver has an assembler of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 60  # after which a tool is given up


def tool(name: str) -> str | None:
    """The path of one of NVIDIA's tools, None where it is not installed."""
    found = shutil.which(name)
    if found is not None:
        return found
    wheels = (Path(folder) / "nvidia" for folder in sys.path)
    return next((str(path) for wheel in wheels for path in sorted(wheel.glob(f"*/bin/{name}"))), None)


def sass(ptx: str, architecture: str) -> str | None:
    """The machine code of PTX for "sm_90a" as text; None without the tools, or where ptxas refuses it."""
    assembler, disassembler = tool("ptxas"), tool("nvdisasm")
    if assembler is None or disassembler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        if _run([assembler, f"-arch={architecture}", str(source), "-o", str(binary)]) is None:
            return None
        return _run([disassembler, "-c", "-plr", str(binary)]) or _run([disassembler, "-c", str(binary)])


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
