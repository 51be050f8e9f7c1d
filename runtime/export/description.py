"""What a library says of itself in a file beside it, for those who call it from Python: `name.json`.

It holds a digest of every file that a call depends on, and one of itself, so that what was cut, mixed up or changed by chance
is found when it is loaded. That is no protection from somebody who means harm: a library is code.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...codegen.artifact import Artifact, BufferSpec
from ...codegen.stored import spec_facts, specs_of
from ...common.elements import NUMPY
from ...common.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "library"  # of an artifact whose code is a shared library
STATUS = (
    "OK",
    "UNSUPPORTED",
    "NO_WEIGHTS",
    "WRONG_WEIGHTS",
    "NO_MEMORY",
    "NULL_POINTER",
    "NOT_ALIGNED",
)  # of its functions
_VERSION = 2
_SUFFIX = ".json"
_MARK, _HASH = "library", "hash"  # the key that only descriptions have; that of the digest of all others


@dataclass(frozen=True, slots=True)
class Described:
    """A library that was saved: its files were looked at, and are those that were written.

    Attributes:
        artifact: what it takes and gives; of format FORMAT.
        targets: the processors that it has code for, as in "x86:avx2".
        shared: the library.
        weights: the file of its weights, where they are not inside.
        provenance: where the configuration comes from, for people to see.
    """

    artifact: Artifact
    targets: tuple[str, ...]
    shared: str
    weights: str | None
    provenance: str


def write_description(folder: Path, name: str, artifact: Artifact, targets: Sequence[str], about: str) -> None:
    """Writes it, once the libraries and weights are in the folder. `about`: where the configuration comes from."""
    facts: dict[str, object] = {
        "version": _VERSION,
        "name": artifact.name,
        _MARK: name,
        "targets": list(targets),
        "threads": artifact.threads,
        "inputs": [*map(spec_facts, artifact.inputs)],
        "outputs": [*map(spec_facts, artifact.outputs)],
        "builder": artifact.builder,
        "provenance": about,
        "files": {
            file: _digest(folder / file) for file in (shared_file(name), weights_file(name)) if (folder / file).exists()
        },
    }
    facts[_HASH] = digest_of(facts)
    (folder / f"{name}{_SUFFIX}").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def digest_of(facts: Mapping[str, object]) -> str:
    """Returns the digest of a description, which does not count itself."""
    text = json.dumps({key: value for key, value in facts.items() if key != _HASH}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def descriptions(path: str | os.PathLike[str]) -> list[str]:
    """Returns what says of itself that it describes a library: the file, or those in a folder."""
    place = os.fspath(path)
    files = [os.path.join(place, name) for name in sorted(os.listdir(place))] if os.path.isdir(place) else [place]
    return [file for file in files if file.endswith(_SUFFIX) and _MARK in _facts(file)]


def read_description(path: str | os.PathLike[str]) -> Described:
    """The library that a file describes, or the one in a folder; all of its files are read once.

    Raises:
        ArgumentError: there is no such description, it is of another version, or a file is not the one that was written.
    """
    file = _file(path)
    folder, facts = os.path.dirname(file), _facts(file)
    version, name = facts.get("version"), str(facts[_MARK])
    if version != _VERSION:
        raise ArgumentError(
            f"{file} was saved by another version of Tilesmith",
            expected=f"version {_VERSION} of the format", found=f"version {version}", advice="save it again",
        )  # fmt: skip
    if facts.get(_HASH) != digest_of(facts) or os.path.basename(name) != name:
        raise _changed(file)
    try:
        files = {str(one): str(digest) for one, digest in facts["files"].items()}
        described = Described(
            Artifact(
                name=str(facts["name"]), target=str(facts["targets"][0]), threads=int(facts["threads"]), format=FORMAT,
                code=b"", symbol=name, inputs=_specs(facts["inputs"]), constants=(), outputs=_specs(facts["outputs"]),
                prepared_bytes=0, workspace_bytes=0, launches=(), builder=str(facts["builder"]),
            ),
            tuple(map(str, facts["targets"])),
            os.path.join(folder, shared_file(name)),
            os.path.join(folder, weights_file(name)) if weights_file(name) in files else None,
            str(facts["provenance"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ArgumentError(f"{file} does not describe a library", found=f"{type(error).__name__}: {error}") from None
    if shared_file(name) not in files:
        raise _changed(described.shared)
    for one in filter(None, (described.shared, described.weights)):
        if not os.path.isfile(one) or _digest(one) != files[os.path.basename(one)]:
            raise _changed(one)
    return described


def _changed(file: str) -> ArgumentError:
    return ArgumentError(
        f"{file} is not the file that was saved",
        found="another content" if os.path.isfile(file) else "no such file", advice="save it again, or copy all of it again",
    )  # fmt: skip


def _file(path: str | os.PathLike[str]) -> str:
    found = descriptions(path)
    if len(found) != 1:
        raise ArgumentError(
            f"{path} is no folder of one library", expected=f"one file NAME{_SUFFIX} that describes a library",
            found=", ".join(map(os.path.basename, found)) or "none",
            advice="name the file" if found else "kernel.save(folder), kernel.export(folder) and `tune compile` write one",
        )  # fmt: skip
    return found[0]


def _facts(file: str) -> dict[str, Any]:
    """The contents of a file, if that is what JSON calls an object; else nothing."""
    try:
        with open(file, encoding="utf-8") as opened:
            facts = json.load(opened)
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _specs(facts: Any) -> tuple[BufferSpec, ...]:
    made = specs_of(facts)
    for one in made:
        if one.dtype not in NUMPY or min(one.shape, default=1) < 1:
            raise ValueError(f"no array is {one.dtype}{list(one.shape)}")
    return made


def shared_file(name: str) -> str:
    """Returns how the shared library of this name is called."""
    return f"lib{name}.so"


def weights_file(name: str) -> str:
    """Returns how the file of its weights is called."""
    return f"{name}.weights"


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
