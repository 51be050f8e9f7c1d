"""Inputs that a person gives for trials, as bytes that go to any machine: an archive of NumPy (.npz), nothing is pickled.

Names are those of the canonical program. What is not given is drawn (tensor/oracle/random_inputs.py).
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..common.settings import CACHE
from ..tensor.oracle.roundings import Array


def pack(arrays: Mapping[str, Array]) -> bytes:
    """The bytes of some arrays; none for no array. Equal arrays have equal bytes."""
    if not arrays:
        return b""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: arrays[name] for name in sorted(arrays)})
    return file.getvalue()


@lru_cache(maxsize=8)
def digest(packed: bytes) -> str:
    """Returns what such bytes are known by; "" for none."""
    return hashlib.sha256(packed).hexdigest()[:32] if packed else ""


def keep(packed: bytes) -> str:
    """The path of a file of the cache that holds these bytes, "" for none: timer children read it from there."""
    if not packed:
        return ""
    folder = CACHE.value() / "inputs"
    path = folder / f"{digest(packed)}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, made = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(packed)
        Path(made).replace(path)
    return str(path)


def read(path: str) -> dict[str, Array]:
    """The arrays of such a file by name; none for ""."""
    if not path:
        return {}
    with np.load(path, allow_pickle=False) as archive:
        return {name: np.ascontiguousarray(archive[name]).reshape(archive[name].shape) for name in archive.files}
