"""What a person gives to a public function, of the kind that it should have. Errors: ArgumentError."""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import Any

from .errors import ArgumentError


def whole_number(value: Any, name: str) -> int:
    """A number that counts, which may be of any library's integers."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise ArgumentError(f"{name} is no whole number", expected="an integer", found=repr(value)[:80])


def file_place(value: Any, name: str) -> Path:
    """The place of a file or folder. `name`: of what is there, as in "the database"."""
    if isinstance(value, str | os.PathLike) and isinstance(text := os.fspath(value), str) and "\0" not in text:
        return Path(value)
    raise ArgumentError(f"the place of {name} is no path", expected="a str or a pathlib.Path", found=repr(value)[:80])
