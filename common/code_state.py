"""Which code decides what is kept: an entry of older code is never found by newer code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from .kept_files import key_of


@cache
def code_state(*packages: str) -> str:
    """A key of all files of some packages. They are told apart by size and time: reading them takes longer."""
    root = __package__.partition(".")[0]
    folders = (Path(next(iter(import_module(f"{root}.{name}").__path__))) for name in packages)
    return key_of(*(line for folder in folders for line in _files(folder)))


def _files(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.is_dir():
            yield from _files(Path(entry.path))
        elif entry.name.endswith(".py"):
            facts = entry.stat()
            yield f"{entry.path} {facts.st_size} {facts.st_mtime_ns}"
