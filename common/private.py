"""What only this user can have written: a cache holds machine code and figures, and believes no file of anybody else."""

from __future__ import annotations

import os
import stat
import warnings
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from .outside import let_through

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def make_private_folder(folder: Path) -> None:
    """Makes a folder and those above it that are missing, for this user alone, whatever the umask allows. Errors: OSError."""
    missing = list(takewhile(lambda place: not place.exists(), (folder, *folder.parents)))
    for place in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            place.mkdir(mode=0o700)
    if not folder.is_dir():
        raise NotADirectoryError(20, "not a folder", str(folder))


def read_private(path: Path) -> bytes | None:
    """The bytes of a file that only this user could write; None if there is none, or, with a warning, if others could."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # so that a pipe does not keep us waiting
    except (OSError, ValueError) as error:
        let_through(error)
        return None
    with open(descriptor, "rb") as file:
        if not _trusted(os.fstat(descriptor), path):
            return None
        try:
            return file.read()
        except OSError as error:
            let_through(error)
            return None


def is_private(path: Path) -> bool:
    """Says whether there is a file that only this user could write. One that others could write is told once."""
    try:
        return _trusted(path.stat(), path)
    except (OSError, ValueError) as error:
        let_through(error)
        return False


def _trusted(facts: os.stat_result, path: Path) -> bool:
    if not stat.S_ISREG(facts.st_mode):
        return False
    own = not hasattr(os, "geteuid") or facts.st_uid == os.geteuid()
    if own and not facts.st_mode & _WRITABLE_BY_OTHERS:
        return True
    _warn(path.parent)
    return False


@lru_cache(maxsize=64)
def _warn(folder: Path) -> None:
    """Tells, once for each folder, that files in it are not believed."""
    warnings.warn(
        f"files in {folder} that belong to another user, or that others may write, are ignored: "
        "chmod -R go-w the folder, or remove them",
        stacklevel=5,
    )
