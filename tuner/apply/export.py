"""export(program, folder): the best kernels that are known, as a C library for one or several processors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...common.errors import ArgumentError
from ...graph.model import Model
from ...runtime.export.export import Exported
from ...targets.target import target_of
from ...tensor.accuracy import Accuracy
from ...tensor.program import Program
from .compile import compile_for


def export(
    program: Program | Model,
    folder: str | Path,
    *,
    targets: str | Sequence[str] = "host",
    name: str | None = None,
    db: str | Path | None = None,
    threads: int | None = None,
    constants: Sequence[object] | Mapping[str, object] | None = None,
    openmp: bool = True,
    inside: bool | None = None,
    accuracy: Accuracy = "default",
) -> Exported:
    """Compiles a program or a model and writes it as a shared and a static library with a C header, to run without Python.

    Args:
        folder: where the files go (runtime/export/export.py lists them).
        targets: what the library is for, as in "x86:avx2", or several of one kind of machine, the best first: which of them
            runs is chosen when the library is loaded. They need not run here; a C compiler for them must be here.
        name, openmp, inside: of the library, as `Kernel.export` has them.
        db, threads, constants, accuracy: as `compile` has them.

    Raises:
        EnvironmentFailure: there is no C compiler for the target.
        TargetError, ArgumentError, DatabaseError: as their messages say.
    """
    wanted = [targets] if isinstance(targets, str) else list(targets)
    if not wanted:
        raise ArgumentError("there is no target to export for", expected='such as "host" or ["x86:avx512", "x86:avx2"]')
    kernels = [compile_for(program, target_of(one), db, threads, constants, accuracy=accuracy) for one in wanted]
    return kernels[0].export(folder, *kernels[1:], name=name, openmp=openmp, inside=inside)
