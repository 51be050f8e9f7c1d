"""The name that somebody may have meant. What compares names is imported when one is wrong: who loads a kernel pays nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def near_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The names that are like one that somebody gave, the nearest first; small and capital letters count as the same."""
    from difflib import get_close_matches

    by_lower = {one.lower(): one for one in known}
    return [by_lower[one] for one in get_close_matches(name.lower(), by_lower, count)]


def did_you_mean(name: str, known: Iterable[str], count: int = 1) -> str:
    """`did you mean matmul?`, for an error's advice; "" where nothing that is known is like the name."""
    close = near_names(str(name), known, count)
    return f"did you mean {' or '.join(close)}?" if close else ""


def near_file(path: Path) -> str:
    """The same for a file that is not there: one beside it, or in a folder of a name like its own."""
    folder = path.parent
    if not folder.is_dir():
        near = _near(folder.name, folder.parent, folders=True)
        return f"did you mean {near / path.name}?" if near is not None and (near / path.name).exists() else ""
    found = _near(path.name, folder)
    return "" if found is None else f"did you mean {found}?"


def _near(name: str, folder: Path, *, folders: bool = False) -> Path | None:
    try:
        there = [one.name for one in folder.iterdir() if (one.is_dir() or not folders) and one.name != name]
    except OSError:
        return None
    close = near_names(name, there)
    return folder / close[0] if close else None
