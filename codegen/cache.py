"""Artifacts on disk, so that what was compiled once is not compiled again.

A key is the sha256 of everything an artifact depends on. An entry holds the artifact as `stored.py` writes it; it is machine
code, which is why only files that this user alone can have written are believed (common/kept_files.py).
"""

from __future__ import annotations

from pathlib import Path

from ..common.code_state import code_state
from ..common.kept_files import KeptFiles, key_of
from ..common.outside import let_through
from .artifact import Artifact, BufferSpec, Launch
from .emulator.layout import STRUCTS
from .rows import ArgumentRows, PitchedRows
from .stored import from_bytes, to_bytes

_FORMAT = b"artifact 3\n"
_ARTIFACT = " ".join(
    f"{kind.__name__}({', '.join(kind.__slots__)})" for kind in (Artifact, BufferSpec, Launch, PitchedRows)
)
_COMPILING = ("targets", "tensor", "schedules", "codegen")  # what decides the code of a candidate
_LAYOUT = f"{_ARTIFACT}\n{STRUCTS}"


def artifact_key(
    program: str, sketch: str, config: str, target: str, threads: int, rows: ArgumentRows, builder: str
) -> str:
    """64 hexadecimal digits. The arguments are canonical texts, and `rows` as `build` takes them; `builder` is
    codegen.cpu.builder_version().

    The code that compiles is part of it, and the fields of an artifact and of what emulated kernels share with the emulator:
    a version with others of them finds nothing of this one.
    """
    return key_of(program, sketch, config, target, str(threads), str(rows), builder, _LAYOUT, code_state(*_COMPILING))


class ArtifactCache:
    """A folder of artifacts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = KeptFiles(folder, ".artifact", _FORMAT)

    def path(self, key: str) -> Path:
        """Says where the entry of a key is."""
        return self._files.path(key)

    def get(self, key: str) -> Artifact | None:
        """The artifact, or None if there is none that is whole, of this key and of this user's making."""
        content = self._files.get(key)
        try:
            return None if content is None else from_bytes(content)
        except Exception as error:  # whatever an odd entry leads to: it is compiled again
            let_through(error)
            return None

    def put(self, key: str, artifact: Artifact) -> None:
        """Keeps an artifact. A folder that cannot be written keeps nothing, and that is no error."""
        self._files.put(key, to_bytes(artifact))
