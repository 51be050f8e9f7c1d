"""Artifacts on disk, so that what was compiled once is not compiled again.

A key is the sha256 of everything an artifact depends on. An entry is one file: the sha256 of what follows, then the pickled
Artifact. Files are written beside their place and renamed into it, so a reader sees a whole file or none, however many
processes write and however they end. Anything odd about an entry makes it a miss.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
from hashlib import sha256
from pathlib import Path

from .artifact import Artifact, BufferSpec, Launch

_DIGEST = 32
_LAYOUT = " ".join(f"{kind.__name__}({', '.join(kind.__slots__)})" for kind in (Artifact, BufferSpec, Launch))


def artifact_key(program: str, sketch: str, config: str, target: str, threads: int, builder: str) -> str:
    """64 hexadecimal digits. The arguments are canonical texts; `builder` is codegen.cpu.builder_version().

    The fields of an artifact are part of it: a version with others of them finds nothing of this one.
    """
    digest = sha256()
    for part in (program, sketch, config, target, str(threads), builder, _LAYOUT):
        text = part.encode()
        digest.update(len(text).to_bytes(8, "little"))  # so that no two lists of parts run together to the same bytes
        digest.update(text)
    return digest.hexdigest()


class ArtifactCache:
    """A folder of artifacts. Entries are pickles: use a folder that only this user can write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Where the entry of a key is."""
        return self.folder / key[:2] / f"{key}.artifact"

    def get(self, key: str) -> Artifact | None:
        """The artifact, or None if there is none that is whole."""
        try:
            content = self.path(key).read_bytes()
            if sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                return None
            artifact = pickle.loads(content[_DIGEST:])
        except Exception:  # whatever an old or damaged entry leads to: it is compiled again
            return None
        return artifact if isinstance(artifact, Artifact) else None

    def put(self, key: str, artifact: Artifact) -> None:
        """Keeps an artifact. A folder that cannot be written keeps nothing, and that is no error."""
        content = pickle.dumps(artifact, protocol=5)
        target = self.path(key)
        with contextlib.suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=target.parent, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(sha256(content).digest() + content)
                Path(name).replace(target)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
