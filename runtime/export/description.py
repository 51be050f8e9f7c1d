"""What a library says of itself in a file beside it, for those who call it from Python: `name.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from ...codegen.artifact import Artifact, BufferSpec
from ...codegen.stored import specs_of
from ...common.errors import ArgumentError
from ...tensor.dtype import DTYPES

FORMAT = "library"  # of an artifact whose code is a shared library
_VERSION = 1
_SUFFIX = ".json"


def write_description(folder: Path, name: str, artifact: Artifact, targets: Sequence[str], about: str) -> None:
    """Writes it, once the libraries and weights are in the folder. `about`: where the configuration comes from."""
    facts = {
        "version": _VERSION,
        "name": artifact.name,
        "library": name,
        "targets": list(targets),
        "threads": artifact.threads,
        "inputs": [astuple(one) for one in artifact.inputs],
        "outputs": [astuple(one) for one in artifact.outputs],
        "builder": artifact.builder,
        "provenance": about,
        "hash": _hash(_shared(folder, name)),
        "weights": (folder / f"{name}.weights").exists(),
    }
    (folder / f"{name}{_SUFFIX}").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def read_description(path: Path) -> tuple[Artifact, Path, Path | None, str]:
    """A library as an artifact, its file, that of its weights, and where it comes from.

    Args:
        path: the file, or a folder with one library.

    Raises:
        ArgumentError: there is no such description, or the library is not the one that it was written for.
    """
    file = _file(path)
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        if facts["version"] != _VERSION:
            raise ValueError(f"version {facts['version']}, not {_VERSION}")
        name = str(facts["library"])
        artifact = Artifact(
            name=str(facts["name"]), target=str(facts["targets"][0]), threads=int(facts["threads"]), format=FORMAT,
            code=b"", symbol=name, inputs=_specs(facts["inputs"]), constants=(), outputs=_specs(facts["outputs"]),
            prepared_bytes=0, workspace_bytes=0, launches=(), builder=str(facts["builder"]),
        )  # fmt: skip
        digest, has_weights, about = str(facts["hash"]), bool(facts["weights"]), str(facts["provenance"])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ArgumentError(f"{file} does not describe a library", found=f"{type(error).__name__}: {error}") from None
    shared = _shared(file.parent, name)
    if Path(name).name != name or not shared.is_file() or _hash(shared) != digest:
        raise ArgumentError(
            f"{shared} is not the library that {file} was written for", advice="export it again, with all of its files"
        )
    return artifact, shared, file.parent / f"{name}.weights" if has_weights else None, about


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = sorted(path.glob(f"*{_SUFFIX}"))
    if len(found) != 1:
        raise ArgumentError(
            f"{path} is no folder of one library", expected=f"one file NAME{_SUFFIX}", found=f"{len(found)} of them",
            advice="name the file" if found else "kernel.export(folder) and `tune compile` write one",
        )  # fmt: skip
    return found[0]


def _specs(facts: Any) -> tuple[BufferSpec, ...]:
    made = specs_of(facts)
    for one in made:
        if one.dtype not in DTYPES or min(one.shape, default=1) < 1:
            raise ValueError(f"no array is {one.dtype}{list(one.shape)}")
    return made


def _shared(folder: Path, name: str) -> Path:
    return folder / f"lib{name}.so"


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
