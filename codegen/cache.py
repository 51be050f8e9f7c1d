"""Artifacts on disk, so that what was compiled once is not compiled again.

A key is the sha256 of everything an artifact depends on. An entry is one file: the sha256 of its key and of what follows, then
the artifact as `stored.py` writes it. Files are written beside their place and renamed into it, so a reader sees a whole file
or none, however many processes write and however they end. Anything odd about an entry makes it a miss; so does an owner or a
mode by which somebody else may have written it (common/private.py), for what it holds is machine code.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from hashlib import sha256
from pathlib import Path

from ..common.private import make_private_folder, read_private
from .artifact import Artifact, BufferSpec, Launch
from .emulator.layout import STRUCTS
from .stored import from_bytes, to_bytes

_DIGEST = 32
_FORMAT = b"artifact 2\n"
_ARTIFACT = " ".join(f"{kind.__name__}({', '.join(kind.__slots__)})" for kind in (Artifact, BufferSpec, Launch))
_LAYOUT = f"{_ARTIFACT}\n{STRUCTS}"


def artifact_key(program: str, sketch: str, config: str, target: str, threads: int, builder: str) -> str:
    """64 hexadecimal digits. The arguments are canonical texts; `builder` is codegen.cpu.builder_version().

    The fields of an artifact are part of it, and of what emulated kernels share with the emulator: a version with others of
    them finds nothing of this one.
    """
    digest = sha256()
    for part in (program, sketch, config, target, str(threads), builder, _LAYOUT):
        text = part.encode()
        digest.update(len(text).to_bytes(8, "little"))  # so that no two lists of parts run together to the same bytes
        digest.update(text)
    return digest.hexdigest()


class ArtifactCache:
    """A folder of artifacts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Where the entry of a key is."""
        return self.folder / key[:2] / f"{key}.artifact"

    def get(self, key: str) -> Artifact | None:
        """The artifact, or None if there is none that is whole, of this key and of this user's making."""
        content = read_private(self.path(key))
        if content is None or content[:_DIGEST] != _digest(key, content[_DIGEST:]):
            return None
        try:
            return from_bytes(content[_DIGEST:])
        except Exception:  # whatever an odd entry leads to: it is compiled again
            return None

    def put(self, key: str, artifact: Artifact) -> None:
        """Keeps an artifact. A folder that cannot be written keeps nothing, and that is no error."""
        content = to_bytes(artifact)
        target = self.path(key)
        with contextlib.suppress(OSError):
            make_private_folder(target.parent)
            handle, name = tempfile.mkstemp(dir=target.parent, suffix=".part")  # its mode is 0600
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_digest(key, content) + content)
                Path(name).replace(target)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise


def _digest(key: str, content: bytes) -> bytes:
    return sha256(_FORMAT + key.encode() + b"\n" + content).digest()
