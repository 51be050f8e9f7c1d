"""A kernel, or a model, as a C library with a header: neither Python nor LLVM is needed where it runs.

    out/name.h            the interface
    out/libname.so        the shared library
    out/libname.a         the static one (link with -fopenmp where kernels have threads, and -lm -lpthread)
    out/name.weights      what constants were prepared to; mapped by `name_init`; only where they are not inside
    out/name.json         what it is, for `tilesmith.load`
    out/name.example.c    a program that runs it, and out/CMakeLists.txt, which builds that

`save` writes the shared library, the weights and name.json alone. A library may hold code for several processors, one for each
target; the best that the machine has is taken when it is loaded.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...codegen.artifact import Artifact
from ...codegen.backends.renamed import ObjectNames, renamed_object
from ...common.errors import ArgumentError
from ...common.given import file_place
from ..devices.cpu.model_team import TEAM
from . import rust
from .description import shared_file, weights_file, write_description
from .example import cmake_text, example_text
from .source import header_text, private, source_text, weights_source
from .toolchain import Toolchain, toolchain
from .variants import HEAD, Variant, Weights, check_alike

INSIDE = 1 << 24  # bytes of weights up to which they are part of the library, unless the caller says otherwise
_THREADS = {
    "GOMP_parallel": "region",
    TEAM: "team",
    "omp_get_thread_num": "thread_num",
    "omp_get_num_threads": "num_threads",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Exported:
    """The files of a library. `weights` is None where they are inside, or where there are none."""

    name: str
    header: Path
    shared: Path
    static: Path
    weights: Path | None
    targets: tuple[str, ...]


def export(
    variants: Sequence[Variant],
    folder: str | Path,
    *,
    name: str | None = None,
    openmp: bool = True,
    inside: bool | None = None,
    about: str = "",
) -> Exported:
    """Writes the library of variants of one kernel, each for another target, the best first.

    Args:
        folder: where the files go; it is made if it is not there, and files of the same names are replaced.
        name: of the library, and the begin of all its symbols; by default the kernel's.
        openmp: threads are OpenMP's, unless the caller lends some. Without, they are always the caller's: a library to which
            none are lent does all work in the thread that calls.
        inside: weights are part of the library, not a file beside it. By default those of up to 16 MiB are.
        about: where the configurations come from, for people to see.

    Raises:
        ArgumentError: the kernels do not belong together, the name is none that C has, or files cannot be written there.
        TargetError: a kernel is for a GPU.
        EnvironmentFailure: there is no C compiler for the target, or it failed.
    """
    folder, artifact = file_place(folder, "the library"), variants[0].artifact
    with _writing(folder):
        made = _library(variants, folder, name, openmp, inside, about, archived=True)
        beside = made.weights.name if made.weights is not None else ""
        threads = _wants_openmp(variants, openmp)
        (folder / f"{made.name}.example.c").write_text(example_text(made.name, artifact, beside))
        (folder / "CMakeLists.txt").write_text(cmake_text(made.name, threads))
        _write_crate(folder / "rust", made.name, artifact, beside, threads)
    return made


def save(variant: Variant, folder: str | Path, *, about: str) -> None:
    """Writes what `Kernel.load` needs of a library, under the kernel's own name. Errors: those of `export`."""
    folder = file_place(folder, "the kernel")
    with _writing(folder):
        _library([variant], folder, None, True, None, about, archived=False)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Tells of files that cannot be written. Errors: ArgumentError."""
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            "the files of the library cannot be written",
            found=f"{error.filename or folder}: {error.strerror or error}",
            advice="give another folder, or make room",
        ) from error


def _wants_openmp(variants: Sequence[Variant], openmp: bool) -> bool:
    return openmp and any(one.artifact.runtime_symbols for one in variants)


def _library(
    variants: Sequence[Variant],
    folder: Path,
    name: str | None,
    openmp: bool,
    inside: bool | None,
    about: str,
    archived: bool,
) -> Exported:
    """Makes the shared library, and what describes it; where it is `archived` also the static one, and the header."""
    check_alike(variants)
    name = _name(name or variants[0].artifact.symbol)
    tools = toolchain(variants[0].target, variants[0].in_c)
    weights = Weights()
    places = [_placed(one, weights) for one in variants]
    within = weights.bytes <= INSIDE if inside is None else inside
    beside = not weights.empty and not within
    build = _build(variants, weights)
    folder.mkdir(parents=True, exist_ok=True)
    threads = _wants_openmp(variants, openmp)
    header, shared, static = folder / f"{name}.h", folder / shared_file(name), folder / f"lib{name}.a"
    file = folder / weights_file(name)
    file.unlink(missing_ok=True)  # of an export before
    interface = header_text(name, variants, file.name if beside else "", build)
    with tempfile.TemporaryDirectory(prefix="tilesmith-") as work:
        at = Path(work)
        objects = [_variant_object(name, number, one, at) for number, one in enumerate(variants)]
        if not weights.empty:
            _write_weights(weights, build, file if beside else at / "weights")
            if within:
                objects.append(_compiled(tools, at, "weights.S", weights_source(name, str(at / "weights"))))
        (at / header.name).write_text(interface)
        text = source_text(name, variants, places, weights, build, within)
        objects.append(_compiled(tools, at, f"{name}.c", text, threads))
        tools.share(objects, shared, threads)
        if archived:
            tools.archive(objects, static)
            header.write_text(interface)
    targets = tuple(one.processor for one in variants)
    write_description(folder, name, variants[0].artifact, targets, about)
    return Exported(name, header, shared, static, file if beside else None, targets)


def _write_crate(folder: Path, name: str, artifact: Artifact, weights: str, openmp: bool) -> None:
    """The library as a crate of Rust."""
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(rust.cargo_text(name))
    (folder / "build.rs").write_text(rust.build_text(name, openmp))
    (folder / "src" / "lib.rs").write_text(rust.library_text(name, artifact))
    (folder / "src" / "main.rs").write_text(rust.program_text(name, artifact, weights))


def _name(name: str) -> str:
    if not _NAME.fullmatch(name) or "__" in name:
        raise ArgumentError(
            "a library's name is the begin of C names",
            expected="letters, digits and single _, a letter first",
            found=name,
        )
    return name


def _placed(one: Variant, weights: Weights) -> tuple[int, dict[int, int]]:
    prepared = -1 if one.prepared is None else weights.place(one.prepared)
    return prepared, {number: weights.place(array) for number, array in one.constants.items()}


def _build(variants: Sequence[Variant], weights: Weights) -> str:
    """Digits that no other code and weights have: the library takes only the file that was made with it."""
    digest = hashlib.blake2b(digest_size=16)
    for one in variants:
        for artifact in (one.artifact, *one.artifact.kernels):
            for code in (artifact.code, *artifact.parts):
                digest.update(code)
    for _, blob in weights.blobs:
        digest.update(blob.data)
    return digest.hexdigest()


def _write_weights(weights: Weights, build: str, path: Path) -> None:
    with path.open("wb") as file:
        file.write(build.encode().ljust(HEAD, b"\0"))
        for at, blob in weights.blobs:
            file.seek(at)
            file.write(blob.data)


def _compiled(tools: Toolchain, at: Path, name: str, text: str, openmp: bool = False) -> Path:
    source, made = at / name, at / f"{name}.o"
    source.write_text(text)
    tools.compile(source, made, openmp)
    return made


def _variant_object(name: str, number: int, one: Variant, at: Path) -> Path:
    """One object of all code for a target, whose functions have the names by which the C source calls them."""
    prepare = private(name, f"prepare{number}") if one.prepares else ""
    runtime = {symbol: private(name, what) for symbol, what in _THREADS.items()}
    made = at / f"{number}.o"
    made.write_bytes(renamed_object(one.artifact, ObjectNames(private(name, f"run{number}"), prepare, runtime)))
    return made
