"""The environment variables that Tilesmith reads: all of them, typed, in one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path  # who only runs saved kernels asks for no path, and starts faster

T = TypeVar("T")
PREFIX = "TILESMITH_"


@dataclass(frozen=True)
class EnvironmentVariable(Generic[T]):
    """One environment variable: `read` makes its value of its text; `default` makes it where the variable is unset or empty."""

    name: str
    meaning: str
    read: Callable[[str], T]
    default: Callable[[], T]

    def value(self, environment: Mapping[str, str] | None = None) -> T:
        """The value now. Errors: ArgumentError that names the variable."""
        text = (os.environ if environment is None else environment).get(self.name, "").strip()
        if not text:
            return self.default()
        try:
            return self.read(text)
        except ValueError as error:
            raise ArgumentError(
                f"the environment variable {self.name} has a wrong value ({self.meaning})",
                expected=str(error),
                found=repr(text),
                advice=f"correct it, or unset {self.name}",
            ) from None


def _level(text: str) -> int:
    if text not in tuple("0123456"):
        raise ValueError("a number from 0 to 6")
    return int(text)


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def _debug_stage(text: str) -> str:
    if text not in DEBUG_STAGES:
        raise ValueError(" or ".join(DEBUG_STAGES))
    return text


def _names(*known: str) -> Callable[[str], tuple[str, ...]]:
    """Reads names with commas between them."""

    def read(text: str) -> tuple[str, ...]:
        found = tuple(part.strip() for part in text.split(","))
        if not set(found) <= set(known):
            raise ValueError(f"{', '.join(known)}, or several of them with commas")
        return found

    return read


def _path(text: str) -> Path:
    from pathlib import Path

    if "\0" in text:
        raise ValueError("a path")
    return Path(text).expanduser()


def _data_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("tilesmith", appauthor=False)


def _cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("tilesmith", appauthor=False)


def _nowhere() -> Path | None:
    return None


DATABASE = EnvironmentVariable("TILESMITH_DB", "the tuning database", _path, lambda: _data_folder() / "tuning.sqlite")
CACHE = EnvironmentVariable(
    "TILESMITH_CACHE", "the folder of compiled artifacts and measured ceilings", _path, _cache_folder
)
DEBUG = EnvironmentVariable("TILESMITH_DEBUG", "how much is told on stderr, 0 to 6 (see debug.py)", _level, lambda: 0)
DUMP: EnvironmentVariable[Path | None] = EnvironmentVariable(
    "TILESMITH_DUMP", "a folder for numbered files of every stage", _path, _nowhere
)
VERIFY = EnvironmentVariable(
    "TILESMITH_VERIFY", "1: loop IR is verified after each pass, as at debug level 4", _switch, lambda: False
)

SHIPPED = EnvironmentVariable(
    "TILESMITH_SHIPPED", "0: records that are shipped with the project are not looked at", _switch, lambda: True
)

DEBUG_STAGES = ("program", "outline", "loops")
DEBUG_INFO = EnvironmentVariable(
    "TILESMITH_DEBUG_INFO",
    "what the debug information of kernels points to: program, outline or loops; none if unset",
    _debug_stage,
    str,
)

RANGES = EnvironmentVariable(
    "TILESMITH_RANGES",
    "profilers of others that are told of each kernel: nvtx, itt",
    _names("nvtx", "itt"),
    tuple[str, ...],
)
PERF = EnvironmentVariable(
    "TILESMITH_PERF",
    "what perf is told of kernels in this process: map, jitdump",
    _names("map", "jitdump"),
    tuple[str, ...],
)

VARIABLES: tuple[EnvironmentVariable[Any], ...] = (
    DATABASE,
    CACHE,
    DEBUG,
    DUMP,
    VERIFY,
    SHIPPED,
    DEBUG_INFO,
    RANGES,
    PERF,
)


def unknown_variables(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Variables that are set, look like ours and are not: most likely misspelt."""
    names = os.environ if environment is None else environment
    return tuple(sorted({n for n in names if n.startswith(PREFIX)} - {variable.name for variable in VARIABLES}))
