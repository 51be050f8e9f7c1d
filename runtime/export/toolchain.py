"""The C compiler and archiver of a target, which a library is put together with."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common.errors import EnvironmentFailure
from ...targets.host import host_kind
from ...targets.in_c import InC
from ...targets.target import Target

_FLAGS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Programs that make objects and libraries. Errors of all methods: EnvironmentFailure with what the program said."""

    compiler: str
    archiver: str

    def compile(self, source: Path, target: Path, openmp: bool) -> None:
        """Makes an object of C or assembly."""
        self._run(self.compiler, *_FLAGS, *(["-fopenmp"] if openmp else []), "-c", source, "-o", target)

    def archive(self, objects: Sequence[Path], target: Path) -> None:
        """Makes a static library."""
        target.unlink(missing_ok=True)
        self._run(self.archiver, "rcsD", target, *objects)

    def share(self, objects: Sequence[Path], target: Path, openmp: bool) -> None:
        """Makes a shared library."""
        flags = ["-shared", f"-Wl,-soname,{target.name}", "-Wl,--no-undefined"]
        self._run(self.compiler, *flags, *objects, *(["-fopenmp"] if openmp else []), "-lm", "-lpthread", "-o", target)

    def _run(self, *command: object) -> None:
        done = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-2000:]
            raise EnvironmentFailure(f"{command[0]} failed", found=said)


def toolchain(target: Target, known: InC) -> Toolchain:
    """The tools for a target: $CC and the system's for this kind of machine, cross tools for others.

    Errors: EnvironmentFailure where one is missing.
    """
    here = target.kind == host_kind().name
    prefix = "" if here else known.tools
    wanted = [os.environ.get("CC", "cc") if here else f"{prefix}gcc", f"{prefix}ar"]
    missing = [name for name in wanted if shutil.which(name) is None]
    if missing:
        raise EnvironmentFailure(
            "a library is put together by a C compiler and its tools", expected=", ".join(wanted),
            found=f"no {', '.join(missing)}", advice=f"apt install {'gcc binutils' if here else known.package}",
        )  # fmt: skip
    return Toolchain(*wanted)
