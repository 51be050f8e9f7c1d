"""Bytes kept on disk under keys, for this user alone.

An entry is one file: the sha256 of its kind, its key and what follows, then the bytes. Files are written beside their place and
renamed into it, so a reader sees a whole file or none, however many processes write and however they end. Anything odd about an
entry makes it a miss; so does an owner or a mode by which somebody else may have written it (private.py).
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from .outside import let_through
from .private import make_private_folder, read_private

_DIGEST = 32


def key_of(*parts: str) -> str:
    """64 hexadecimal digits of texts. No two lists of parts run together to the same bytes."""
    digest = sha256()
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """A folder of entries. `suffix`: of their names. `kind`: what they hold, and how; another kind reads none of them."""

    folder: Path
    suffix: str
    kind: bytes

    def path(self, key: str) -> Path:
        """Says where the entry of a key is."""
        return self.folder / key[:2] / f"{key}{self.suffix}"

    def get(self, key: str) -> bytes | None:
        """The bytes, or None if there are none that are whole, of this key and of this user's making."""
        content = read_private(self.path(key))
        if content is None or content[:_DIGEST] != self._digest(key, content[_DIGEST:]):
            return None
        return content[_DIGEST:]

    def put(self, key: str, content: bytes) -> None:
        """Keeps bytes. A folder that cannot be written keeps nothing, and that is no error."""
        target = self.path(key)
        try:
            make_private_folder(target.parent)
            handle, name = tempfile.mkstemp(dir=target.parent, suffix=".part")  # its mode is 0600
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(self._digest(key, content) + content)
                Path(name).replace(target)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            let_through(error)

    def _digest(self, key: str, content: bytes) -> bytes:
        return sha256(self.kind + key.encode() + b"\n" + content).digest()
